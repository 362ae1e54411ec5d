-- Unpark jobs of groups that may have capacity for them now.
--
-- ARGV[2…]  groups
-- Returns   OK
--
-- include lib/queue.lua
-- include lib/job.lua
-- include lib/groups.lua

local queue = load_queue(KEYS[1])
if queue then
  allow_when_full()
  for index = 2, #ARGV do
    unpark_group(queue, ARGV[index])
  end
  close_queue(queue)
end
return redis.status_reply('OK')
