-- The first half of a move to a queue in another slot: take the job out of its list and keep
-- everything of it in :moving until it has arrived.
--
-- ARGV[2]  its id
-- ARGV[3]  the transition (packed), see lib/apply.lua; `entry` is the other queue's name in the
--          registry, `move` the id of this move
-- Returns  a verdict
--
-- include lib/queue.lua
-- include lib/job.lua
-- include lib/groups.lua
-- include lib/key_values.lua
-- include lib/move.lua
-- include lib/apply.lua
-- include lib/read_jobs.lua

local queue = load_queue(KEYS[1])
local id, transition = ARGV[2], cmsgpack.unpack(ARGV[3])
local job = queue and load_jobs(queue, {id})[id]
if not job or job.past_retention then
  return NO_JOB
elseif not check_guard(queue, job, transition) then
  return REFUSED + job.state
end
allow_when_full()
local at, freed = format_float(at_of(queue, job)), {}
local found = read_jobs(queue, {job.member}, {at}, math.huge)
clear_flag(job, PARKED)
redis.call('HSET', queue.base .. ':moving', id, cmsgpack.pack({
  entry = transition.entry, move = transition.move, at = at, body = found[2],
  state = write_state(job), result = has_flag(job, RESULT) and found[5] or nil,
  progress = found[6] or nil, history = found[7],
  by = transition.by, moved = transition.moved,
}))
delete_jobs(queue, {job})
add_move_entry(queue, job, job.state, NO_STATE, transition.by, transition.moved)
track_group(queue, freed, job, job.state)
free_groups(queue, freed)
close_queue(queue)
return job.state
