-- Apply steps, each if its guard holds.
--
-- KEYS[3]   the tenant's room for keys
-- ARGV[2…]  steps, see lib/apply.lua
-- Returns   {their verdicts, flat {verdict, how many in a row}; for refused steps that may have
--            been taken before, flat {id, place, result, ended attempts}}
--
-- include lib/queue.lua
-- include lib/job.lua
-- include lib/groups.lua
-- include lib/key_values.lua
-- include lib/move.lua
-- include lib/apply.lua

local queue = open_queue(KEYS[1])
if not queue then
  return {{}, {}}
end
insist()
local verdicts, left, ends = apply_steps(queue, 2)
if next(left) then
  free_groups(queue, left)
end
close_queue(queue)
close_arrivals()
return {verdicts, ends}
