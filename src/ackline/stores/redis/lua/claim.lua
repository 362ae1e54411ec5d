-- Apply transitions, promote due jobs, lease the next queued jobs, report lapsed ones.
--
-- KEYS[3]   the base name of the tenant's key-value store
-- ARGV[2]   the request (packed): worker, limit, lease, token_jump, kinds, lease_of_kind,
--           ignore_group_limit, max_bytes of bodies; if jobs may be delivered to the worker, also
--           its inbox, received_token (the last one there) and free_capacity (how many jobs it
--           could start now)
-- ARGV[3…]  transitions, see lib/apply.lua
-- Returns   {now, token or '', when the next job is due or the next lease lapses or '', verdicts,
--            last leases (both as in apply.lua), flat {id, body} of the leased jobs, flat {index
--            from 0, attempts, flags} of those that were leased before, the jobs whose lease has
--            lapsed, the job that was delivered but did not arrive or '', see
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
local queue = load_queue(KEYS[1])
if not queue then
  return {format_float(now), '', '', {}, {}, {}, {}, {}, ''}
end

local inbox, lost_delivery = request.inbox, ''
local entry = inbox and redis.call('HGET', queue.base .. ':inboxes', inbox)
if entry then
  lost_delivery = find_lost_delivery(queue, entry, request.received_token)
  if lost_delivery ~= '' then
    request.limit = request.limit - 1
  end
end
allow_when_full()
local verdicts, freed, last_leases = {}, {}, {}
if ARGV[3] then
  verdicts, freed, last_leases = apply_transitions(queue, 3)
end
if next(freed) then
  free_groups(queue, freed)
end
local due, token, jobs, redelivered = nil, nil, {}, {}
if not queue.paused then
  due = next_due(queue)
  if due and due <= now then
    promote(queue, repair_limit(queue))
    due = next_due(queue)
  end
  local lists = request.limit > 0 and ready_lists(queue, request.kinds, request.limit) or {}
  if lists[1] then
    token, jobs, redelivered = lease_next(queue, request, lists)
  end
end
if inbox and lost_delivery == '' then
  if #jobs < 2 * request.free_capacity then
    wait_for_delivery(queue, inbox, ARGV[2], entry)
  elseif entry then
    remove_inbox(queue, inbox)
  end
end
local wants_wakeup = not queue.wake_requested and #jobs < 2 * request.limit
if wants_wakeup then
  queue.wake_requested = true
  queue.topics.ready = nil
end
save_token(queue, token, wants_wakeup)
close_queue(queue)
close_target_queues()

local next_deadline, lapsed = first_at(queue.base .. ':processing'), {}
if next_deadline and next_deadline <= now then
  next_deadline, lapsed = nil, lapsed_jobs(queue, repair_limit(queue))
end
local next_at = min_time(due, next_deadline)
return {format_float(now), token and format_int(token) or '',
  next_at and format_float(next_at) or '', verdicts, last_leases, jobs, redelivered, lapsed,
  lost_delivery}
