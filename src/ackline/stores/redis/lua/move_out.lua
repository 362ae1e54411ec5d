-- The first half of a move to a queue of another slot: take the job out of its line and keep
-- everything of it in :away, until it has arrived.
--
-- ARGV[2]  its id
-- ARGV[3]  the step (packed), see lib/apply.lua; `entry` is the name of the other queue
-- Returns  a verdict
--
-- include lib/queue.lua
-- include lib/job.lua
-- include lib/groups.lua
-- include lib/key_values.lua
-- include lib/move.lua
-- include lib/apply.lua
-- include lib/read_jobs.lua

local queue = open_queue(KEYS[1])
local id, step = ARGV[2], cmsgpack.unpack(ARGV[3])
local job = queue and load_jobs(queue, {id})[id]
if not job or job.over then
  return GONE
elseif not guard(queue, job, step) then
  return REFUSED + job.state
end
insist()
local at, left = exact(at_of(queue, job)), {}
local seen = look_up(queue, {job.member}, {at}, math.huge)
clear(job, HELD)
redis.call('HSET', queue.base .. ':away', id, cmsgpack.pack({
  entry = step.entry, move = step.move, at = at, body = seen[2], place = write_place(job),
  result = has(job, RESULT) and seen[5] or nil, progress = seen[6] or nil, history = seen[7],
  by = step.by, moved = step.moved,
}))
drop_jobs(queue, {job})
note_move(queue, job, job.state, NOWHERE, step.by, step.moved)
mind_group(queue, left, job, job.state)
free_groups(queue, left)
close_queue(queue)
return job.state
