-- Write something, so that WAIT and WAITAOF have a write of this connection to wait for: a change
-- that was sent again may have written nothing.
--
-- Returns  OK
--
-- include lib/queue.lua

allow_when_full()
redis.call('HINCRBY', KEYS[2], 'marker', 1)
return redis.status_reply('OK')
