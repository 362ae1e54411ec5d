-- Delete an empty queue, except its journal and the numbers that must continue to grow.
--
-- ARGV[2]  who requested it
-- Returns  1, or 0 if it has jobs
--
-- include lib/queue.lua

local queue = load_queue(KEYS[1])
if not queue then
  return 1
end
for _, count in ipairs(redis.call('HVALS', queue.base .. ':counts')) do
  if tonumber(count) ~= 0 then
    return 0
  end
end
-- In a cluster: jobs that are moving to another queue, which may refuse and return them.
if redis.call('EXISTS', queue.base .. ':moving') == 1 then
  return 0
end
allow_when_full()
add_entry(queue, 'drop', NO_STATE, NO_STATE, 0, '', '', ARGV[2], '', '', 0)
close_queue(queue)
redis.call('DEL', queue.base .. ':counts', queue.base .. ':kinds', queue.base .. ':workers',
  queue.base .. ':inboxes')
redis.call('HDEL', queue.base .. ':queue', 'settings', 'ageing', 'paused', 'group_limit',
  'max_jobs', 'repair_limit', 'wake_requested')
return 1
