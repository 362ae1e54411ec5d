-- Apply transitions, each if its guards hold.
--
-- KEYS[3]   the base name of the tenant's key-value store
-- ARGV[2…]  transitions, see lib/apply.lua
-- Returns   {flat {verdict, how many in a row}, how the last leases of refused jobs ended: flat
--            {id, state, result, history}}
--
-- include lib/queue.lua
-- include lib/job.lua
-- include lib/groups.lua
-- include lib/key_values.lua
-- include lib/move.lua
-- include lib/apply.lua

local queue = load_queue(KEYS[1])
if not queue then
  return {{}, {}}
end
allow_when_full()
local verdicts, freed, last_leases = apply_transitions(queue, 2)
if next(freed) then
  free_groups(queue, freed)
end
close_queue(queue)
close_target_queues()
return {verdicts, last_leases}
