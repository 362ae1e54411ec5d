-- Apply steps, each if its guard holds, for a worker that goes on waiting to be handed jobs.
--
-- KEYS[3]   the tenant's room for keys
-- ARGV[2]   its inbox
-- ARGV[3]   the token that it has received there last
-- ARGV[4…]  steps, see lib/steps.lua
-- Returns   {verdicts and how refused jobs ended (both as apply.lua), 1 if it waits, or 0 if it has
--            to claim: jobs may be in line, or one was handed over that it has not received}
--
-- include lib/queue.lua
-- include lib/job.lua
-- include lib/groups.lua
-- include lib/room.lua
-- include lib/move.lua
-- include lib/steps.lua
-- include lib/claim.lua
-- include lib/handing.lua

local queue = open_queue(KEYS[1])
if not queue then
  return {{}, {}, 0}
end
local verdicts, left, ends = apply_steps(queue, 4)
if next(left) then
  leave_groups(queue, left)
end
-- As long as nobody was woken for jobs in line since the last claim, there are none to claim.
local news = queue.topics.ready or not queue.idle
close_queue(queue)
close_arrivals()
-- Only now: the steps stay applied, whatever :waiting has.
local waits = not news and wait_on(queue, ARGV[2], tonumber(ARGV[3]))
return {verdicts, ends, waits and 1 or 0}
