-- Direct delivery: an enqueue leases its job to a waiting worker, and sends it there.
--
-- direct_delivery.py tells the whole story. Here is the server's part: what state an inbox is in,
-- and all that leads from one state to another.
--
--                 claim that brings too few          enqueue of a single job
--    (no entry) ─────────────────────────► WAITING ─────────────────────────► DELIVERED ─┐ claim: the
--        ▲                                   │ ▲                                │  ▲      │ job, if it
--        └───────────────────────────────────┘ └────────────────────────────────┘  └──────┘ was lost
--          claim that brings enough, or none       claim that says it arrived
--
--   :waiting      hash: inbox → WAITING, time, request (packed), or DELIVERED, time, token, id
--   :to:<inbox>   channel: what `delivered_job` packs

local WAITING, DELIVERED = 'w', 'd'
local ENTRY = '>c1d'
local LEASED = '>I8Hc0'
local DELIVERED_JOB = '>I8ddI4BHc0'

-- Seconds: a waiting worker claims every second, and some of these claims renew its entry. One that
-- has not renewed it for longer may be dead or stopped, and gets nothing delivered.
local RENEWED, SILENT, MEMORY = 1.5, 4, 60

-- Seconds of the shortest lease that is delivered: it must outlast the repair of a lost message.
local MIN_LEASE = 3

-- The most bytes of a body that is sent: a larger one is fetched, so that no channel runs over.
local LARGEST_BODY = 65536

-- The most inboxes to look at: more are seldom needed, because mostly one of a few listens.
local MOST_ASKED = 4

local function delivered_job(token, started, deadline, attempts, flags, id, body)
  return struct.pack(DELIVERED_JOB, token, started, deadline, attempts, flags, #id, id) .. body
end

local function enter(queue, inbox, state, what)
  redis.call('HSET', queue.base .. ':waiting', inbox, struct.pack(ENTRY, state, now) .. what)
end

-- What a claim needs ------------------------------------------------------------------------

-- The job that was delivered to this inbox and did not arrive, '' if there is none.
-- gate
local function undelivered_job(queue, entry, received)
  local state, _, at = struct.unpack(ENTRY, entry)
  if state ~= DELIVERED then
    return ''
  end
  local token, id = struct.unpack(LEASED, entry, at)
  local place = token ~= received and redis.call('HGET', queue.base .. ':place', id)
  local job = place and read_place(id, place)
  if not job or job.state ~= PROCESSING or job.token ~= token or at_of(queue, job) <= now then
    return ''
  end
  local body = redis.call('HGET', queue.base .. ':job', id)
  return delivered_job(token, job.started, at_of(queue, job), job.attempts, job.flags, id, body)
end

-- From now on a job may be delivered to this inbox; `entry` is what :waiting has of it, or false.
local function wait_for_delivery(queue, inbox, request, entry)
  local state, renewed_at = nil, nil
  if entry then
    state, renewed_at = struct.unpack(ENTRY, entry)
  end
  if state ~= WAITING or renewed_at < now - RENEWED then
    enter(queue, inbox, WAITING, request)
  end
end

-- Nothing more is delivered to this inbox.
local function withdraw(queue, inbox)
  redis.call('HDEL', queue.base .. ':waiting', inbox)
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

-- Whether jobs of these kinds are in line already, which must be claimed before a new one.
local function any_in_line(queue, kinds)
  for _, kind in ipairs(kinds or redis.call('SMEMBERS', queue.base .. ':kinds')) do
    if redis.call('EXISTS', ready_line(queue, kind)) == 1 then
      return true
    end
  end
  return false
end

-- The request of an inbox, nil if it does not wait for this kind or nobody listens there.
local function request_of(queue, inbox, entry, kind)
  local state, renewed_at, at = struct.unpack(ENTRY, entry)
  if renewed_at < now - SILENT then
    withdraw(queue, inbox)
    return nil
  end
  local request = state == WAITING and cmsgpack.unpack(string.sub(entry, at))
  if not request or not wants_kind(request, kind) or any_in_line(queue, request.kinds) then
    return nil
  end
  local listeners = redis.pcall('PUBSUB', 'NUMSUB', queue.base .. ':to:' .. inbox)
  return not listeners.err and listeners[2] > 0 and request or nil
end

-- Lease a job that was never in line to a waiting inbox, and send it there.
local function deliver_to(queue, inbox, request, lease, head, job)
  redis.call('ZADD', queue.base .. ':processing', head.deadline, job.member)
  redis.call('HSET', queue.base .. ':place', job.id,
    start_cursor(head, job.rank) .. string.sub(job.body, -8))
  save_lease(queue, lease.token, false)
  shift(queue, QUEUED, PROCESSING, 1)
  hold(queue, request.worker, 1)
  note_job(queue, 'claim', QUEUED, PROCESSING, lease.token, request.worker, job.id, job.kind, 1)
  enter(queue, inbox, DELIVERED, struct.pack(LEASED, lease.token, #job.id, job.id))
  redis.call('PUBLISH', queue.base .. ':to:' .. inbox,
    delivered_job(lease.token, now, now + head.seconds, 1, 0, job.id, job.body))
end

-- Deliver a job to an inbox that waits for its kind; false if there is none.
-- job: id, kind, member, rank and body of a new job that is in no group
--
-- By now the job is half stored. So commands that this user or this server does not have must not
-- raise an error here.
-- gate
local function deliver(queue, job, leap)
  local found = redis.pcall('HRANDFIELD', queue.base .. ':waiting', MOST_ASKED, 'WITHVALUES')
  local count = found.err and 0 or #found / 2
  for turn = 1, count do
    -- If there are few fields, the server always returns the same one first.
    local index = 2 * ((leap + turn) % count) + 1
    local inbox = found[index]
    local request = request_of(queue, inbox, found[index + 1], job.kind)
    if request then
      request.leap = leap
      local lease = new_lease(queue, request)
      local head = read_head(lease, job.body, job.kind)
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

-- Forget inboxes that nobody reads any more: their workers were killed.
local function forget_inboxes(queue)
  local waiting = queue.base .. ':waiting'
  local all = redis.call('HGETALL', waiting)
  for index = 1, #all, 2 do
    local _, renewed_at = struct.unpack(ENTRY, all[index + 1])
    if renewed_at < now - MEMORY then
      withdraw(queue, all[index])
    end
  end
end
