-- A move is settled where it began: what is remembered of it here may be forgotten some day.
--
-- ARGV[2]  the name of the move
-- Returns  OK
--
-- include lib/queue.lua

for _, answer in ipairs({' here', ' refused'}) do
  -- Not at once: whoever else was about to complete the move may still ask.
  redis.call('ZADD', KEYS[1] .. ':arrived', 'XX', exact(now), ARGV[2] .. answer)
end
return redis.status_reply('OK')
