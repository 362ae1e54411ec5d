-- Record that a worker waits for jobs from now on and has to be woken.
--
-- KEYS[3] and on  the base names of more queues
-- Returns         OK
--
-- include lib/queue.lua

allow_when_full()
for number, base in ipairs(KEYS) do
  if number ~= 2 and redis.call('EXISTS', base .. ':queue') == 1 then
    redis.call('HSET', base .. ':queue', 'wake_requested', '1')
  end
end
return redis.status_reply('OK')
