-- A move is settled where it began: its answer that is kept here may be forgotten some day.
--
-- ARGV[2]  the name of the move
-- Returns  OK
--
-- include lib/queue.lua

for _, answer in ipairs({' here', ' refused'}) do
  -- Not at once: another process that was about to complete the move may still ask for it.
  redis.call('ZADD', KEYS[1] .. ':arrived', 'XX', exact(now), ARGV[2] .. answer)
end
return redis.status_reply('OK')
