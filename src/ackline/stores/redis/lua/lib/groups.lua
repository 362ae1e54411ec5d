-- Groups: at most `group_limit` jobs of a group may be processing at the same time.
--
-- A claim parks the queued jobs of a full group in lists of their own, so that later claims do not
-- read them again and again. When a lease of the group ends, as many jobs as it then has capacity
-- for are unparked. One too many does no harm: the next claim parks it again.

local function leases_of_group(queue, group)
  return tonumber(redis.call('HGET', queue.base .. ':groups', group) or 0)
end

local function add_group_lease(queue, group)
  redis.call('HINCRBY', queue.base .. ':groups', group, 1)
end

-- `parked_lists` has the lists in which jobs were already parked by this claim.
local function park(queue, job, parked_lists)
  set_flag(job, PARKED)
  local list = parked_key(queue, job.group, job.kind)
  if not parked_lists[list] then
    parked_lists[list] = true
    redis.call('SADD', queue.base .. ':parked', job.group)
    redis.call('SADD', queue.base .. ':parked_kinds:' .. job.group, job.kind)
  end
end

-- The most jobs that are unparked at once; others follow when the next leases end.
local MAX_UNPARKED = 1000

local function unpark(queue, group, kind, free_slots)
  local list = parked_key(queue, group, kind)
  local jobs, ids = {}, {}
  local popped = redis.call('ZRANGE', list, 0, math.min(free_slots, MAX_UNPARKED) - 1, 'WITHSCORES')
  for index = 1, #popped, 2 do
    ids[#ids + 1] = id_of(popped[index])
  end
  local found = load_jobs(queue, ids)
  for _, id in ipairs(ids) do
    local job = found[id]
    at_of(queue, job)
    clear_flag(job, PARKED)
    jobs[#jobs + 1] = job
  end
  if #jobs > 0 then
    save_jobs(queue, jobs)
    notify_topic(queue, 'ready')
  end
  if redis.call('EXISTS', list) == 0 then
    redis.call('SREM', queue.base .. ':parked_kinds:' .. group, kind)
  end
end

-- Unpark as many jobs of each kind as the group has capacity for: a claim may want only some kinds.
local function unpark_group(queue, group)
  local kinds = redis.call('SMEMBERS', queue.base .. ':parked_kinds:' .. group)
  local free_slots = #kinds > 0 and queue.group_limit - leases_of_group(queue, group) or 0
  if free_slots > 0 then
    for _, kind in ipairs(kinds) do
      unpark(queue, group, kind, free_slots)
    end
    if redis.call('EXISTS', queue.base .. ':parked_kinds:' .. group) == 0 then
      redis.call('SREM', queue.base .. ':parked', group)
    end
  end
end

-- `freed` counts the leases of each group that ended; 0 if it only has fewer queued jobs.
-- on_demand
local function free_groups(queue, freed)
  for group, count in pairs(freed) do
    if count > 0 and redis.call('HINCRBY', queue.base .. ':groups', group, -count) <= 0 then
      redis.call('HDEL', queue.base .. ':groups', group)
    end
    unpark_group(queue, group)
  end
end

local function track_group(queue, freed, job, source)
  if job.group == '' then
    return
  elseif source == PROCESSING and job.state ~= PROCESSING then
    freed[job.group] = (freed[job.group] or 0) + 1
  elseif source == QUEUED then
    freed[job.group] = freed[job.group] or 0
  end
end
