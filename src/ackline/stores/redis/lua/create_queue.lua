-- Create a queue unless it exists.
--
-- ARGV[2…]  its fields
-- Returns   OK
--
-- include lib/queue.lua

if not load_queue(KEYS[1]) then
  redis.call('HSET', KEYS[1] .. ':queue', unpack(ARGV, 2))
end
return redis.status_reply('OK')
