-- Handing a job over to one who waits for it, in the very step that stores it.
--
-- Who claims and gets too little leaves its request in :waiting, under the name of its inbox. Who
-- then stores a job leases it to one of them, as if it had just claimed it, and sends it there. Such
-- a message can get lost. So :waiting keeps what was handed over until the next claim of the same
-- inbox: that tells what it has received, and otherwise brings it.
--
--   :waiting      hash: inbox → 'w', request (packed), or 'h', token (8 bytes), id
--   :to:<inbox>   channel: what `hand` packs

local HANDED = '>I8ddI4BHc0'

-- Seconds after the last claim until inboxes are forgotten: those who live claim far more often.
local MEMORY = 60

-- Bytes of a body that is sent: a larger one is fetched, so that no channel runs over.
local LARGEST_HANDED = 65536

-- Inboxes to look at: more are seldom needed, for there is one that listens among few.
local MOST_ASKED = 4

local function hand(token, started, deadline, attempts, flags, id, body)
  return struct.pack(HANDED, token, started, deadline, attempts, flags, #id, id) .. body
end

-- What this inbox was sent and has not received, '' if there is nothing.
-- gate
local function unreceived(queue, promise, received)
  if string.sub(promise, 1, 1) ~= 'h' then
    return ''
  end
  local token, id = struct.unpack('>I8', promise, 2), string.sub(promise, 10)
  local place = token ~= received and redis.call('HGET', queue.base .. ':place', id)
  local job = place and read_place(id, place)
  if not job or job.state ~= PROCESSING or job.token ~= token then
    return ''
  end
  local body = redis.call('HGET', queue.base .. ':job', id)
  return hand(token, job.started, at_of(queue, job), job.attempts, job.flags, id, body)
end

-- From now on an inbox waits to be handed a job.
local function wait_for_job(queue, inbox, packed)
  redis.call('HSET', queue.base .. ':waiting', inbox, 'w' .. packed)
  redis.call('EXPIRE', queue.base .. ':waiting', MEMORY)
end

local function wants_kind(request, kind)
  for _, wanted in ipairs(request.kinds or {kind}) do
    if wanted == kind then
      return true
    end
  end
  return false
end

local function listens(queue, inbox)
  if redis.call('PUBSUB', 'NUMSUB', queue.base .. ':to:' .. inbox)[2] > 0 then
    return true
  end
  redis.call('HDEL', queue.base .. ':waiting', inbox)
  return false
end

-- Lease a job to one who waits without having stood in line, and send it there.
local function hand_to(queue, inbox, request, job)
  local lease = new_lease(queue, request)
  local head = read_head(lease, job.body, job.kind)
  redis.call('ZADD', queue.base .. ':processing', head.deadline, job.member)
  redis.call('HSET', queue.base .. ':place', job.id,
    first_place(head, job.body, struct.pack('>d', job.rank)))
  save_lease(queue, lease.token, false)
  shift(queue, QUEUED, PROCESSING, 1)
  hold(queue, request.worker, 1)
  note_run(queue, 'claim', QUEUED, PROCESSING, lease.token, request.worker, '', '',
    {job.id, job.kind, 1})
  redis.call('HSET', queue.base .. ':waiting', inbox,
    'h' .. struct.pack('>I8', lease.token) .. job.id)
  redis.call('PUBLISH', queue.base .. ':to:' .. inbox,
    hand(lease.token, now, now + head.seconds, 1, 0, job.id, job.body))
end

-- job: id, kind, member, rank and body of one that would be the next in line, and is in no group
-- Lease it to one who waits for its kind, and send it there; false if nobody does.
-- gate
local function hand_over(queue, job, leap)
  local found = redis.call('HRANDFIELD', queue.base .. ':waiting', MOST_ASKED, 'WITHVALUES')
  for index = 1, #found, 2 do
    local inbox, promise = found[index], found[index + 1]
    if string.sub(promise, 1, 1) == 'w' then
      local request = cmsgpack.unpack(string.sub(promise, 2))
      if wants_kind(request, job.kind) and listens(queue, inbox) then
        request.leap = leap
        hand_to(queue, inbox, request, job)
        return true
      end
    end
  end
  return false
end
