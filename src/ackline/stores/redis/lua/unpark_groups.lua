-- Let jobs into line that their groups hold back and may have room for now.
--
-- ARGV[2…]  groups
-- Returns   OK
--
-- include lib/queue.lua
-- include lib/job.lua
-- include lib/groups.lua

local queue = open_queue(KEYS[1])
if queue then
  insist()
  for index = 2, #ARGV do
    open_group(queue, ARGV[index])
  end
  close_queue(queue)
end
return redis.status_reply('OK')
