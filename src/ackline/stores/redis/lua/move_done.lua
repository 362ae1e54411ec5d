-- The last step of a move: the job is where it belongs, so :away need not keep it any more.
--
-- ARGV[2]  its id
-- ARGV[3]  what :away keeps: another move of the same id may be under way by now
-- Returns  OK
--
-- include lib/queue.lua

local away = KEYS[1] .. ':away'
if redis.call('HGET', away, ARGV[2]) == ARGV[3] then
  redis.call('HDEL', away, ARGV[2])
end
return redis.status_reply('OK')
