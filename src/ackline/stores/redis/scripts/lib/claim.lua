-- Promote what is due, and lease the next jobs in line.

-- How many due and how many lapsed jobs one claim looks after.
local REPAIR_LIMIT = 200

local function head_of(line)
  local first = redis.call('ZRANGE', line, 0, 0, 'WITHSCORES')
  return tonumber(first[2])
end

-- Promoting --------------------------------------------------------------------------------

local function due_in(queue, state, limit)
  local line = queue.base .. ':' .. LINES[state]
  return redis.call('ZRANGEBYSCORE', line, '-inf', exact(now), 'WITHSCORES', 'LIMIT', 0, limit)
end

local function earlier(one, other)
  return one.at < other.at or (one.at == other.at and one.number < other.number)
end

-- Queue what is due, in the order of its time; answers how many.
local function promote(queue, limit)
  local ids = {}
  for _, state in ipairs({SCHEDULED, FAILING}) do
    local due = due_in(queue, state, limit)
    for index = 1, #due, 2 do
      ids[#ids + 1] = id_of(due[index])
    end
  end
  if #ids == 0 then
    return 0
  end
  local jobs = {}
  for _, job in pairs(load_jobs(queue, ids)) do
    at_of(queue, job)
    jobs[#jobs + 1] = job
  end
  table.sort(jobs, earlier)
  for index = #jobs, limit + 1, -1 do
    jobs[index] = nil
  end
  for _, job in ipairs(jobs) do
    note(queue, 'promote', job.state, QUEUED, 0, '', '', '', job.id, job.kind, job.attempts)
    shift(queue, job.state, QUEUED, 1)
    job.state, job.at = QUEUED, job.at - job.priority * queue.ageing
    job.rank = job.at
  end
  save_jobs(queue, jobs)
  tell(queue, 'ready')
  return #jobs
end

-- Handing out ------------------------------------------------------------------------------

-- The lines to claim from, the one with the best head first: {line, kind, at, member}.
local function ready_lines(queue, kinds)
  local lines = {}
  for _, kind in ipairs(kinds or redis.call('SMEMBERS', queue.base .. ':kinds')) do
    local line = ready_line(queue, kind)
    local first = redis.call('ZRANGE', line, 0, 0, 'WITHSCORES')
    if first[1] then
      lines[#lines + 1] = {line, kind, tonumber(first[2]), first[1]}
    elseif not kinds then
      redis.call('SREM', queue.base .. ':kinds', kind)
    end
  end
  return lines
end

local function before(at, member, other)
  if at ~= other[3] then
    return at < other[3]
  end
  return struct.unpack('>I6', member) < struct.unpack('>I6', other[4])
end

-- Puts the line with the best head first; answers that of the second best, if there is one.
local function best_first(lines)
  for rank = 1, math.min(2, #lines) do
    for index = rank + 1, #lines do
      if before(lines[index][3], lines[index][4], lines[rank]) then
        lines[rank], lines[index] = lines[index], lines[rank]
      end
    end
  end
  return lines[2]
end

-- Takes up to `limit` of the best jobs out of their lines: flat {member, at, kind}.
local function pop_best(lines, limit)
  local popped = {}
  while #popped < 3 * limit and #lines > 0 do
    local second = best_first(lines)
    local best = lines[1]
    local want = limit - #popped / 3
    local found = redis.call('ZRANGE', best[1], 0, want, 'WITHSCORES')
    local taken = 0
    for index = 1, #found, 2 do
      local at = tonumber(found[index + 1])
      if taken == want or (second and not before(at, found[index], second)) then
        break
      end
      local size = #popped
      popped[size + 1], popped[size + 2], popped[size + 3] = found[index], at, best[2]
      taken = taken + 1
    end
    redis.call('ZREMRANGEBYRANK', best[1], 0, taken - 1)
    if found[2 * taken + 1] then
      best[3], best[4] = tonumber(found[2 * taken + 2]), found[2 * taken + 1]
    else
      table.remove(lines, 1)
    end
  end
  return popped
end

-- A token above every earlier one. After the loss of the last moments (a failover, a restore)
-- `leap`, a number drawn by the claimer, keeps the new ones from meeting those that were lost.
local function next_token(queue, leap)
  local token = math.max(math.floor(now * 1e6), queue.token + leap)
  queue.token = token
  redis.call('HSET', queue.base .. ':queue', 'token', whole(token))
  return token
end

local function has_room(queue, running, group)
  if group == '' then
    return true
  end
  running[group] = running[group] or running_in(queue, group)
  if running[group] >= queue.group_limit then
    return false
  end
  running[group] = running[group] + 1
  enter_group(queue, group)
  return true
end

-- request: worker, limit, lease, leap, kinds or nil, leases of kinds that differ
-- Answers {token, flat {id, body, attempts, flags}}.
local function take(queue, request)
  local lines = ready_lines(queue, request.kinds)
  local jobs, running, token = {}, {}, nil
  local leased, places, held = {}, {}, {}
  local lapses = {}
  while #jobs < 4 * request.limit do
    local popped = pop_best(lines, request.limit - #jobs / 4)
    if #popped == 0 then
      break
    end
    local ids = {}
    for index = 1, #popped, 3 do
      ids[#ids + 1] = id_of(popped[index])
    end
    local bodies = get_many('HMGET', queue.base .. ':job', ids)
    local known = get_many('HMGET', queue.base .. ':place', ids)
    for index, id in ipairs(ids) do
      local body, place = bodies[index], known[index]
      local member, rank, kind = popped[3 * index - 2], popped[3 * index - 1], popped[3 * index]
      local number, _, priority, lease, _, group = struct.unpack(BODY, body)
      local attempts, flags = 1, 0
      if place then
        flags = bit.band(string.byte(place, 3), bit.bnot(PROGRESS))
        attempts = struct.unpack('>I4', place, 21) + 1
        if flags ~= string.byte(place, 3) then
          redis.call('HDEL', queue.base .. ':progress', id)
        end
      end
      if has_room(queue, running, group) then
        token = token or next_token(queue, request.leap)
        if lease == 0 then
          lease = request.leases[kind] or request.lease
        end
        lapses[lease] = lapses[lease] or exact(now + lease)
        local size = #leased
        leased[size + 1], leased[size + 2] = lapses[lease], member
        places[size + 1] = id
        places[size + 2] = struct.pack(
          PLACE, PROCESSING, 0, flags, 0, number, priority, attempts, token, rank, now,
          #request.worker, request.worker, #kind, kind, #group, group
        )
        local count = #jobs
        jobs[count + 1], jobs[count + 2] = id, body
        jobs[count + 3], jobs[count + 4] = attempts, flags
        note(queue, 'claim', QUEUED, PROCESSING, token, request.worker, '', '', id, kind, attempts)
      else
        local job = place and read_place(id, place) or read_fresh(id, body)
        job.rank, job.at = rank, rank
        hold_back(queue, job)
        held[#held + 1] = job
      end
    end
  end
  call_many('ZADD', queue.base .. ':processing', leased)
  call_many('HSET', queue.base .. ':place', places)
  save_jobs(queue, held)
  shift(queue, QUEUED, PROCESSING, #jobs / 4)
  return token, jobs
end
