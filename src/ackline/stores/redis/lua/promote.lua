-- Queue the jobs that are due.
--
-- ARGV[2]  how many at most
-- Returns  how many
--
-- include lib/queue.lua
-- include lib/job.lua
-- include lib/groups.lua
-- include lib/claim.lua

local queue = open_queue(KEYS[1])
if not queue then
  return 0
end
insist()
local count = promote(queue, tonumber(ARGV[2]))
close_queue(queue)
return count
