-- Write something, so that a server has something to wait for: a change that was sent again may
-- have changed nothing, and another connection's writes do not count.
--
-- Returns  OK
--
-- include lib/queue.lua

insist()
redis.call('HINCRBY', KEYS[2], 'waited', 1)
return redis.status_reply('OK')
