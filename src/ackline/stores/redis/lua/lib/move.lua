-- Hand a job to another queue of the same server.

local arrivals = {}

-- `settings` are the fields of a new queue, `entry` its name among all queues.
local function make_queue(base, registry, entry, settings)
  redis.call('HSET', base .. ':queue', unpack(settings))
  redis.call('SADD', registry, entry)
  return open_queue(base)
end

local function make_way(target, id)
  local old = load_jobs(target, {id})[id]
  if old and old.over then
    drop_jobs(target, {old})
  end
  return not old or old.over
end

-- Everything that is kept of a job outside its line moves with it.
local function carry(queue, target, id)
  for _, hash in ipairs({'job', 'place', 'result', 'progress'}) do
    local value = redis.call('HGET', queue.base .. ':' .. hash, id)
    if value then
      redis.call('HSET', target.base .. ':' .. hash, id, value)
      redis.call('HDEL', queue.base .. ':' .. hash, id)
    end
  end
  if redis.call('EXISTS', queue.base .. ':history:' .. id) == 1 then
    redis.call('RENAME', queue.base .. ':history:' .. id, target.base .. ':history:' .. id)
  end
end

-- gate
local function move_job(queue, job, step, left)
  local there = open_queue(step.target[1])
  if there and not make_way(there, job.id) then
    return REFUSED + job.state
  end
  local target = there or make_queue(unpack(step.target))
  save_jobs(queue, {job})
  local at, state = at_of(queue, job), job.state
  redis.call('ZREM', job.line, job.member)
  carry(queue, target, job.id)
  shift(queue, state, nil, 1)
  note_move(queue, job, state, NOWHERE, step.by, step.moved)
  mind_group(queue, left, job, state)
  clear(job, HELD)
  job.was, job.at = nil, at
  save_jobs(target, {job})
  shift(target, nil, state, 1)
  if job.token > target.token then
    -- A job's tokens must grow, whichever queue hands them out.
    redis.call('HSET', target.base .. ':queue', 'token', whole(job.token))
  end
  note_move(target, job, NOWHERE, state, step.by, step.moved)
  tell_priority(target, job.priority, 1)
  tell(target, 'ready')
  arrivals[#arrivals + 1] = target
  job.gone = true
  return state
end

-- Write the arrivals to the other queues' journals, after this queue's journal has the departures.
local function close_arrivals()
  for _, target in ipairs(arrivals) do
    close_queue(target)
  end
end
