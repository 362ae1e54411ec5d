-- Direct delivery: an enqueue leases its job to a waiting worker, and sends it there.
--
-- See direct_delivery.py for how it works. Here is the server's part: the states of an inbox, and
-- everything that leads from one state to another.
--
--                 claim that brings too few          enqueue of a single job
--    (no entry) ────────────────────────► WAITING ────────────────────────► DELIVERED ─┐ claim: the
--        ▲                                  │ ▲                               │  ▲      │ job, if it
--        └──────────────────────────────────┘ └───────────────────────────────┘  └──────┘ was lost
--          claim that brings enough, or none       claim that says it arrived
--
--   :inboxes      hash: inbox → WAITING, time, request (packed), or DELIVERED, time, token, id
--   :to:<inbox>   channel: what `delivered_job` packs

local WAITING, DELIVERED = 'w', 'd'
local ENTRY = '>c1d'
local LEASED = '>I8Hc0'
local DELIVERED_JOB = '>I8ddI4BHc0'

-- Seconds. A waiting worker claims every second, and some of these claims renew its entry. A worker
-- that has not renewed it for longer may be dead or stopped, and gets nothing delivered.
local RENEW_AFTER, INBOX_TIMEOUT, FORGET_AFTER = 1.5, 4, 60

-- Seconds of the shortest lease that is delivered: it must outlast the recovery of a lost message.
local MIN_LEASE = 3

-- The most bytes of a body that is sent: workers claim larger jobs, so that no channel overflows.
local MAX_BODY = 65536

-- The most inboxes to try: more are seldom needed, because usually one of a few is listening.
local MAX_INBOXES_TRIED = 4

local function delivered_job(token, started, deadline, attempts, flags, id, body)
  return struct.pack(DELIVERED_JOB, token, started, deadline, attempts, flags, #id, id) .. body
end

local function set_inbox(queue, inbox, status, content)
  redis.call('HSET', queue.base .. ':inboxes', inbox, struct.pack(ENTRY, status, now) .. content)
end

-- What a claim needs ------------------------------------------------------------------------

-- The job that was delivered to this inbox but did not arrive, '' if there is none.
-- on_demand
local function find_lost_delivery(queue, entry, received)
  local status, _, at = struct.unpack(ENTRY, entry)
  if status ~= DELIVERED then
    return ''
  end
  local token, id = struct.unpack(LEASED, entry, at)
  local packed = token ~= received and redis.call('HGET', queue.base .. ':state', id)
  local job = packed and read_state(id, packed)
  if not job or job.state ~= PROCESSING or job.token ~= token or at_of(queue, job) <= now then
    return ''
  end
  local body = redis.call('HGET', queue.base .. ':job', id)
  return delivered_job(token, job.started, at_of(queue, job), job.attempts, job.flags, id, body)
end

-- From now on a job may be delivered to this inbox; `entry` is its entry in :inboxes, or false.
local function wait_for_delivery(queue, inbox, request, entry)
  local status, renewed_at = nil, nil
  if entry then
    status, renewed_at = struct.unpack(ENTRY, entry)
  end
  if status ~= WAITING or renewed_at < now - RENEW_AFTER then
    set_inbox(queue, inbox, WAITING, request)
  end
end

-- From now on nothing is delivered to this inbox.
local function remove_inbox(queue, inbox)
  redis.call('HDEL', queue.base .. ':inboxes', inbox)
end

-- What an enqueue needs ----------------------------------------------------------------------

local function wants_kind(request, kind)
  for _, wanted in ipairs(request.kinds or {kind}) do
    if wanted == kind then
      return true
    end
  end
  return false
end

-- Whether jobs of these kinds are already queued: they must be claimed before a new one.
local function any_queued(queue, kinds)
  for _, kind in ipairs(kinds or redis.call('SMEMBERS', queue.base .. ':kinds')) do
    if redis.call('EXISTS', ready_key(queue, kind)) == 1 then
      return true
    end
  end
  return false
end

-- The request of an inbox, nil if it does not wait for this kind or nobody listens to it.
local function request_of(queue, inbox, entry, kind)
  local status, renewed_at, at = struct.unpack(ENTRY, entry)
  if renewed_at < now - INBOX_TIMEOUT then
    remove_inbox(queue, inbox)
    return nil
  end
  local request = status == WAITING and cmsgpack.unpack(string.sub(entry, at))
  if not request or not wants_kind(request, kind) or any_queued(queue, request.kinds) then
    return nil
  end
  local listeners = redis.pcall('PUBSUB', 'NUMSUB', queue.base .. ':to:' .. inbox)
  return not listeners.err and listeners[2] > 0 and request or nil
end

-- Lease a new job, which was never queued, to a waiting inbox, and send it there.
local function deliver_to(queue, inbox, request, lease, head, job)
  redis.call('ZADD', queue.base .. ':processing', head.deadline, job.member)
  redis.call('HSET', queue.base .. ':state', job.id,
    first_state(head, job.rank) .. string.sub(job.body, -8))
  save_token(queue, lease.token, false)
  change_counts(queue, QUEUED, PROCESSING, 1)
  change_lease_count(queue, request.worker, 1)
  add_job_entry(queue, 'claim', QUEUED, PROCESSING, lease.token, request.worker, job.id,
    job.kind, 1)
  set_inbox(queue, inbox, DELIVERED, struct.pack(LEASED, lease.token, #job.id, job.id))
  redis.call('PUBLISH', queue.base .. ':to:' .. inbox,
    delivered_job(lease.token, now, now + head.seconds, 1, 0, job.id, job.body))
end

-- Deliver a job to an inbox that waits for its kind; false if there is none.
-- job: id, kind, member, rank and body of a new job that is in no group
--
-- By now the job is half stored. So a command that this user may not run, or that this server does
-- not know, must not raise an error here.
-- on_demand
local function deliver(queue, job, token_jump)
  local found = redis.pcall('HRANDFIELD', queue.base .. ':inboxes', MAX_INBOXES_TRIED, 'WITHVALUES')
  local count = found.err and 0 or #found / 2
  for attempt = 1, count do
    -- If there are few fields, the server always returns them in the same order.
    local index = 2 * ((token_jump + attempt) % count) + 1
    local inbox = found[index]
    local request = request_of(queue, inbox, found[index + 1], job.kind)
    if request then
      request.token_jump = token_jump
      local lease = new_lease(queue, request)
      local head = read_body_head(lease, job.body, job.kind)
      if head.seconds < MIN_LEASE then
        return false
      end
      deliver_to(queue, inbox, request, lease, head, job)
      return true
    end
  end
  return false
end

-- What pruning needs -------------------------------------------------------------------------

-- Delete inboxes that nobody reads any more, because their workers were killed.
local function delete_dead_inboxes(queue)
  local inboxes = queue.base .. ':inboxes'
  local all = redis.call('HGETALL', inboxes)
  for index = 1, #all, 2 do
    local _, renewed_at = struct.unpack(ENTRY, all[index + 1])
    if renewed_at < now - FORGET_AFTER then
      remove_inbox(queue, all[index])
    end
  end
end
