-- Queue the jobs that are due.
--
-- ARGV[2]  the most jobs
-- Returns  how many it queued
--
-- include lib/queue.lua
-- include lib/job.lua
-- include lib/groups.lua
-- include lib/claim.lua

local queue = load_queue(KEYS[1])
if not queue then
  return 0
end
allow_when_full()
local count = promote(queue, tonumber(ARGV[2]))
close_queue(queue)
return count
