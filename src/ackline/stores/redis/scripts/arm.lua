-- Somebody waits for jobs from now on, and wants to be told.
--
-- include lib/queue.lua

redis.call('HDEL', KEYS[2], '')
if redis.call('EXISTS', KEYS[1] .. ':queue') == 1 then
  redis.call('HSET', KEYS[1] .. ':queue', 'idle', '1')
end
return redis.status_reply('OK')
