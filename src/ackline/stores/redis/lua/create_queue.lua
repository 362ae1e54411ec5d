-- Make a queue, unless it is there.
--
-- ARGV[2…]  its fields
-- Returns   OK
--
-- include lib/queue.lua

if not open_queue(KEYS[1]) then
  redis.call('HSET', KEYS[1] .. ':queue', unpack(ARGV, 2))
end
return redis.status_reply('OK')
