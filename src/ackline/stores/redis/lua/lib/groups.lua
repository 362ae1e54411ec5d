-- Groups: how many jobs of one group may be processing at once.
--
-- A claim holds back the queued jobs of a full group in lines of their own, so that it does not
-- meet them again and again. When a place may have become free, as many jobs as fit go back into
-- their line. One too many does no harm: the next claim holds it back again.

local function running_in(queue, group)
  return tonumber(redis.call('HGET', queue.base .. ':groups', group) or 0)
end

local function enter_group(queue, group)
  redis.call('HINCRBY', queue.base .. ':groups', group, 1)
end

-- `known`: the lines that hold jobs back already.
local function hold_back(queue, job, known)
  set(job, HELD)
  local line = held_line(queue, job.group, job.kind)
  if not known[line] then
    known[line] = true
    redis.call('SADD', queue.base .. ':held', job.group)
    redis.call('SADD', queue.base .. ':holding:' .. job.group, job.kind)
  end
end

-- The most jobs that are let into line at once; the others follow when the next ones end.
local MOST_FORWARD = 1000

local function let_forward(queue, group, kind, room)
  local line = held_line(queue, group, kind)
  local jobs, ids = {}, {}
  local popped = redis.call('ZRANGE', line, 0, math.min(room, MOST_FORWARD) - 1, 'WITHSCORES')
  for index = 1, #popped, 2 do
    ids[#ids + 1] = id_of(popped[index])
  end
  local found = load_jobs(queue, ids)
  for _, id in ipairs(ids) do
    local job = found[id]
    at_of(queue, job)
    clear(job, HELD)
    jobs[#jobs + 1] = job
  end
  if #jobs > 0 then
    save_jobs(queue, jobs)
    tell(queue, 'ready')
  end
  if redis.call('EXISTS', line) == 0 then
    redis.call('SREM', queue.base .. ':holding:' .. group, kind)
  end
end

-- Let as many jobs of each kind into line as the group has room for: a claim may want only some.
local function open_group(queue, group)
  local kinds = redis.call('SMEMBERS', queue.base .. ':holding:' .. group)
  local room = #kinds > 0 and queue.group_limit - running_in(queue, group) or 0
  if room > 0 then
    for _, kind in ipairs(kinds) do
      let_forward(queue, group, kind, room)
    end
    if redis.call('EXISTS', queue.base .. ':holding:' .. group) == 0 then
      redis.call('SREM', queue.base .. ':held', group)
    end
  end
end

-- `left` counts the leases of each group that have ended; 0 if only its line has changed.
-- gate
local function free_groups(queue, left)
  for group, count in pairs(left) do
    if count > 0 and redis.call('HINCRBY', queue.base .. ':groups', group, -count) <= 0 then
      redis.call('HDEL', queue.base .. ':groups', group)
    end
    open_group(queue, group)
  end
end

local function mind_group(queue, left, job, source)
  if job.group == '' then
    return
  elseif source == PROCESSING and job.state ~= PROCESSING then
    left[job.group] = (left[job.group] or 0) + 1
  elseif source == QUEUED then
    left[job.group] = left[job.group] or 0
  end
end
