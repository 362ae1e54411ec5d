-- Apply steps, promote what is due, lease the next jobs in line, tell what has lapsed.
--
-- KEYS[3]   the tenant's room for keys
-- ARGV[2]   the request (packed): worker, limit, lease, leap, kinds, leases
-- ARGV[3…]  steps, see lib/steps.lua
-- Answers   {now, token or '', when the next job is due or lapses or '', verdicts,
--            flat {id, body} of the leased jobs, flat {index from 0, attempts, flags} of those
--            among them that a worker has had before, those whose lease has lapsed}
--
-- include lib/queue.lua
-- include lib/job.lua
-- include lib/groups.lua
-- include lib/room.lua
-- include lib/move.lua
-- include lib/steps.lua
-- include lib/claim.lua
-- include lib/look.lua

local request = cmsgpack.unpack(ARGV[2])
local queue = open_queue(KEYS[1])
if not queue then
  return {exact(now), '', '', {GONE, count_steps(3)}, {}, {}, {}}
end

insist()
local verdicts, left = {}, {}
if ARGV[3] then
  verdicts, left = apply_steps(queue, 3)
end
if next(left) then
  leave_groups(queue, left)
end
local token, jobs, again = nil, {}, {}
if not queue.paused then
  promote(queue, REPAIR_LIMIT)
  if request.limit > 0 then
    token, jobs, again = take(queue, request)
  end
end
if not queue.idle and #jobs < 2 * request.limit then
  -- The claimer will wait for more: from now on it wants to be told.
  queue.idle = true
  redis.call('HSET', queue.base .. ':queue', 'idle', '1')
  queue.topics.ready = nil
end
close_queue(queue)
close_arrivals()

local next_at
for _, state in ipairs({SCHEDULED, FAILING, PROCESSING}) do
  local head = head_of(queue.base .. ':' .. LINES[state])
  if head and (not next_at or head < next_at) then
    next_at = head
  end
end
local late = next_at and next_at <= now and lapsed(queue, REPAIR_LIMIT) or {}
return {exact(now), token and whole(token) or '', next_at and exact(next_at) or '',
  in_runs(verdicts), jobs, again, late}
