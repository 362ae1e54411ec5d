-- Move a job to another queue on the same server.

local target_queues = {}

-- `settings` are the fields of a new queue, `entry` is its name in the registry.
local function create_queue(base, registry, entry, settings)
  redis.call('HSET', base .. ':queue', unpack(settings))
  redis.call('SADD', registry, entry)
  return load_queue(base)
end

local function delete_expired_duplicate(target, id)
  local old = load_jobs(target, {id})[id]
  if old and old.past_retention then
    delete_jobs(target, {old})
  end
  return not old or old.past_retention
end

-- Move everything that is stored for a job except its position in a list.
local function move_job_data(queue, target, id)
  for _, hash in ipairs({'job', 'state', 'result', 'progress'}) do
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

-- on_demand
local function move_job(queue, job, transition, freed)
  local existing = load_queue(transition.target[1])
  if existing and not delete_expired_duplicate(existing, job.id) then
    return REFUSED + job.state
  end
  local target = existing or create_queue(unpack(transition.target))
  save_jobs(queue, {job})
  local at, state = at_of(queue, job), job.state
  redis.call('ZREM', job.list, job.member)
  move_job_data(queue, target, job.id)
  change_counts(queue, state, nil, 1)
  add_move_entry(queue, job, state, NO_STATE, transition.by, transition.moved)
  track_group(queue, freed, job, state)
  clear_flag(job, PARKED)
  job.old_list, job.at = nil, at
  save_jobs(target, {job})
  change_counts(target, nil, state, 1)
  if job.token > target.token then
    -- The tokens of a job must grow, also from one queue to the next.
    redis.call('HSET', target.base .. ':queue', 'token', format_int(job.token))
  end
  add_move_entry(target, job, NO_STATE, state, transition.by, transition.moved)
  add_priorities(target, job.priority, 1)
  notify_topic(target, 'ready')
  target_queues[#target_queues + 1] = target
  job.has_moved = true
  return state
end

-- Write the journals of the other queues, after this queue's journal has the departures.
local function close_target_queues()
  for _, target in ipairs(target_queues) do
    close_queue(target)
  end
end
