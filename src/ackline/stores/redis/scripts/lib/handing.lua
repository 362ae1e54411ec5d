-- Handing a job over to a waiting worker, in the very step that stores the job.
--
-- A claim that gets fewer jobs than it wants leaves its request in :waiting, under the name of its
-- inbox. An enqueue then leases its job to one of these inboxes, as if that had just claimed it,
-- and sends the job there. Such a message can get lost. So :waiting keeps what was handed over
-- until the same inbox says what it has received: with its next claim, which brings the job if it
-- was lost, or when its worker settles and goes on waiting.
--
--   :waiting      hash: inbox → 'w', time, request (packed); or 'g', time, token, id, and the value
--                 that was there before
--   :to:<inbox>   channel: what `hand` packs

local HANDED = '>I8ddI4BHc0'
local PROMISE = '>c1d'
local GIVEN = '>I8Hc0'

-- Seconds: a waiting worker claims every second, and some of these claims renew its request. One
-- that has not renewed it for longer may be dead or stopped, and is handed nothing.
local RENEWED, SILENT, MEMORY = 1.5, 4, 60

-- Seconds of the shortest lease that is handed over: it must outlast the repair of a lost message.
local SHORTEST_HANDED = 3

-- The most bytes of a body that is sent: a larger one is fetched, so that no channel runs over.
local LARGEST_HANDED = 65536

-- The most inboxes to look at: more are seldom needed, because mostly one of a few listens.
local MOST_ASKED = 4

local function hand(token, started, deadline, attempts, flags, id, body)
  return struct.pack(HANDED, token, started, deadline, attempts, flags, #id, id) .. body
end

-- The job that was sent to this inbox and not received, '' if there is none.
-- gate
local function unreceived(queue, promise, received)
  local sort, _, at = struct.unpack(PROMISE, promise)
  if sort ~= 'g' then
    return ''
  end
  local token, id = struct.unpack(GIVEN, promise, at)
  local place = token ~= received and redis.call('HGET', queue.base .. ':place', id)
  local job = place and read_place(id, place)
  if not job or job.state ~= PROCESSING or job.token ~= token or at_of(queue, job) <= now then
    return ''
  end
  local body = redis.call('HGET', queue.base .. ':job', id)
  return hand(token, job.started, at_of(queue, job), job.attempts, job.flags, id, body)
end

local function promise(queue, inbox, sort, what)
  redis.call('HSET', queue.base .. ':waiting', inbox, struct.pack(PROMISE, sort, now) .. what)
end

-- Let an inbox wait to be handed a job; `before` is its value in :waiting, if it has one.
local function wait_for_job(queue, inbox, packed, before)
  local sort, since = nil, nil
  if before then
    sort, since = struct.unpack(PROMISE, before)
  end
  if sort ~= 'w' or since < now - RENEWED then
    promise(queue, inbox, 'w', packed)
    redis.call('EXPIRE', queue.base .. ':waiting', MEMORY)
  end
end

-- Let an inbox that has received its job wait as before; false if it does not wait at all.
local function wait_on(queue, inbox, received)
  local noted = redis.call('HGET', queue.base .. ':waiting', inbox)
  if not noted then
    return false
  end
  local sort, _, at = struct.unpack(PROMISE, noted)
  if sort ~= 'g' then
    return sort == 'w'
  end
  local token, _, before = struct.unpack(GIVEN, noted, at)
  if token ~= received then
    return false
  end
  redis.call('HSET', queue.base .. ':waiting', inbox, string.sub(noted, before))
  return true
end

-- Forget inboxes that nobody reads any more: their workers were killed.
local function forget_inboxes(queue)
  local waiting = queue.base .. ':waiting'
  local all = redis.call('HGETALL', waiting)
  for index = 1, #all, 2 do
    local _, since = struct.unpack(PROMISE, all[index + 1])
    if since < now - MEMORY then
      redis.call('HDEL', waiting, all[index])
    end
  end
end

local function wants_kind(request, kind)
  for _, wanted in ipairs(request.kinds or {kind}) do
    if wanted == kind then
      return true
    end
  end
  return false
end

-- Whether jobs of these kinds are in line already, which must be claimed before a new one.
local function has_others(queue, kinds)
  for _, kind in ipairs(kinds or redis.call('SMEMBERS', queue.base .. ':kinds')) do
    if redis.call('EXISTS', ready_line(queue, kind)) == 1 then
      return true
    end
  end
  return false
end

-- The request of an inbox, nil if it does not wait for this kind or nobody listens there.
local function request_of(queue, inbox, noted, kind)
  local sort, since, at = struct.unpack(PROMISE, noted)
  if since < now - SILENT then
    redis.call('HDEL', queue.base .. ':waiting', inbox)
    return nil
  end
  local request = sort == 'w' and cmsgpack.unpack(string.sub(noted, at))
  if not request or not wants_kind(request, kind) or has_others(queue, request.kinds) then
    return nil
  end
  local listeners = redis.pcall('PUBSUB', 'NUMSUB', queue.base .. ':to:' .. inbox)
  return not listeners.err and listeners[2] > 0 and request or nil
end

-- Lease a job that was never in line to a waiting inbox, and send it there.
local function hand_to(queue, inbox, noted, request, lease, head, job)
  redis.call('ZADD', queue.base .. ':processing', head.deadline, job.member)
  redis.call('HSET', queue.base .. ':place', job.id,
    first_place(head, job.rank) .. string.sub(job.body, -8))
  save_lease(queue, lease.token, false)
  shift(queue, QUEUED, PROCESSING, 1)
  hold(queue, request.worker, 1)
  note_job(queue, 'claim', QUEUED, PROCESSING, lease.token, request.worker, job.id, job.kind, 1)
  promise(queue, inbox, 'g', struct.pack(GIVEN, lease.token, #job.id, job.id) .. noted)
  redis.call('PUBLISH', queue.base .. ':to:' .. inbox,
    hand(lease.token, now, now + head.seconds, 1, 0, job.id, job.body))
end

-- Lease a job to an inbox that waits for its kind, and send it there; false if there is none.
-- job: id, kind, member, rank and body of a new job that is in no group
--
-- By now the job is half stored. So commands that this user or this server does not have must not
-- raise an error here.
-- gate
local function hand_over(queue, job, leap)
  local found = redis.pcall('HRANDFIELD', queue.base .. ':waiting', MOST_ASKED, 'WITHVALUES')
  local count = found.err and 0 or #found / 2
  for turn = 1, count do
    -- If there are few fields, the server always returns the same one first.
    local index = 2 * ((leap + turn) % count) + 1
    local inbox, noted = found[index], found[index + 1]
    local request = request_of(queue, inbox, noted, job.kind)
    if request then
      request.leap = leap
      local lease = new_lease(queue, request)
      local head = read_head(lease, job.body, job.kind)
      if head.seconds < SHORTEST_HANDED then
        return false
      end
      hand_to(queue, inbox, noted, request, lease, head, job)
      return true
    end
  end
  return false
end
