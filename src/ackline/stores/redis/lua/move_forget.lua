-- A move is finished in its source queue: pruning may delete its outcome, which is kept here.
--
-- ARGV[2]  the id of the move
-- Returns  OK
--
-- include lib/queue.lua

for _, outcome in ipairs({' accepted', ' refused'}) do
  -- Not immediately: another process that is finishing the same move may still need it.
  redis.call('ZADD', KEYS[1] .. ':moves', 'XX', format_float(now), ARGV[2] .. outcome)
end
return redis.status_reply('OK')
