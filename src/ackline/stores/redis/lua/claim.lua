-- Apply steps, promote due jobs, lease the next jobs in line, report lapsed ones.
--
-- KEYS[3]   the tenant's room for keys
-- ARGV[2]   the request (packed): worker, limit, lease, leap, kinds, leases, whether the limit of
--           groups is ignored, after how many bytes of bodies to stop; if jobs may be delivered
--           to the worker, also its inbox, the token that it has received there last, and how
--           many jobs it could begin at once
-- ARGV[3…]  steps, see lib/apply.lua
-- Returns   {now, token or '', when the next job is due or lapses or '', verdicts and how refused
--            jobs ended (both as apply.lua), flat {id, body} of the leased jobs, flat {index from
--            0, attempts, flags} of those among them that a worker has had before, the jobs whose
--            lease has lapsed, the job that was delivered but did not arrive or '', see
--            lib/direct_delivery.lua}
--
-- include lib/queue.lua
-- include lib/job.lua
-- include lib/groups.lua
-- include lib/key_values.lua
-- include lib/move.lua
-- include lib/apply.lua
-- include lib/claim.lua
-- include lib/read_jobs.lua
-- include lib/direct_delivery.lua

local request = cmsgpack.unpack(ARGV[2])
local queue = open_queue(KEYS[1])
if not queue then
  return {exact(now), '', '', {GONE, count_steps(3)}, {}, {}, {}, {}, ''}
end

local inbox, undelivered = request.inbox, ''
local entry = inbox and redis.call('HGET', queue.base .. ':waiting', inbox)
if entry then
  undelivered = undelivered_job(queue, entry, request.received)
  if undelivered ~= '' then
    request.limit = request.limit - 1
  end
end
insist()
local verdicts, left, ends = {}, {}, {}
if ARGV[3] then
  verdicts, left, ends = apply_steps(queue, 3)
end
if next(left) then
  free_groups(queue, left)
end
local due, token, jobs, again = nil, nil, {}, {}
if not queue.paused then
  due = next_due(queue)
  if due and due <= now then
    promote(queue, CLAIM_MAINTENANCE_LIMIT)
    due = next_due(queue)
  end
  local lines = request.limit > 0 and ready_lines(queue, request.kinds, request.limit) or {}
  if lines[1] then
    token, jobs, again = take(queue, request, lines)
  end
end
if inbox and undelivered == '' then
  if #jobs < 2 * request.free then
    wait_for_delivery(queue, inbox, ARGV[2], entry)
  elseif entry then
    withdraw(queue, inbox)
  end
end
local wanting = not queue.idle and #jobs < 2 * request.limit
if wanting then
  queue.idle = true
  queue.topics.ready = nil
end
save_lease(queue, token, wanting)
close_queue(queue)
close_arrivals()

local lapse, late = head_of(queue.base .. ':processing'), {}
if lapse and lapse <= now then
  lapse, late = nil, lapsed(queue, CLAIM_MAINTENANCE_LIMIT)
end
local next_at = sooner(due, lapse)
return {exact(now), token and whole(token) or '', next_at and exact(next_at) or '',
  verdicts, ends, jobs, again, late, undelivered}
