-- The last step of a move between slots: the job has arrived, so :moving need not keep it.
--
-- ARGV[2]  its id
-- ARGV[3]  its entry in :moving: by now, another move of the same id may be in progress
-- Returns  OK
--
-- include lib/queue.lua

local moving = KEYS[1] .. ':moving'
if redis.call('HGET', moving, ARGV[2]) == ARGV[3] then
  redis.call('HDEL', moving, ARGV[2])
end
return redis.status_reply('OK')
