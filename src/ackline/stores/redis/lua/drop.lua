-- Forget everything of an empty queue except its journal and the numbers that must go on growing.
--
-- ARGV[2]  who asked for it
-- Returns  1, or 0 if it holds jobs
--
-- include lib/queue.lua

local queue = open_queue(KEYS[1])
if not queue then
  return 1
end
for _, count in ipairs(redis.call('HVALS', queue.base .. ':counts')) do
  if tonumber(count) ~= 0 then
    return 0
  end
end
-- In a cluster: jobs on their way to another queue, which may refuse them and send them back.
if redis.call('EXISTS', queue.base .. ':away') == 1 then
  return 0
end
insist()
note(queue, 'drop', NOWHERE, NOWHERE, 0, '', '', ARGV[2], '', '', 0)
close_queue(queue)
redis.call('DEL', queue.base .. ':counts', queue.base .. ':kinds', queue.base .. ':workers',
  queue.base .. ':waiting')
redis.call('HDEL', queue.base .. ':queue', 'settings', 'ageing', 'paused', 'group_limit',
  'max_jobs', 'idle')
return 1
