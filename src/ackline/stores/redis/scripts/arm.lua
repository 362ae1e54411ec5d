-- Note that somebody waits for jobs from now on, and wants to be woken.
--
-- Returns  OK
--
-- include lib/queue.lua

insist()
if redis.call('EXISTS', KEYS[1] .. ':queue') == 1 then
  redis.call('HSET', KEYS[1] .. ':queue', 'idle', '1')
end
return redis.status_reply('OK')
