-- A job: its body, written once, and its place, which moves.
--
-- Body   (hash :job)    time of creation, priority, lease or 0, kind, group, options, payload, number
-- Place  (hash :place)  absent while a job waits in line and no worker has had it yet
--
-- The fields in which neighbours differ are at the end, and those that they mostly share come in
-- one piece before them. Whether two share that piece is checked with `string.find`, because every
-- string that Lua makes costs time for each of its bytes.

local BODY = '>dBdHc0Hc0'
local PLACE = '>BBBdBI4I8dHc0Hc0Hc0'
-- A place goes on with the result, if that is short; then come the rank and the number.
local PLACE_END, PLACE_END_SIZE = '>dI8', 16
-- The fields that a completion changes are at the front of a place, so that the rest can stay as it
-- is. What follows, up to the result, is alike for all jobs of a kind that were claimed together.
local FRONT, MIDDLE, MIDDLE_AT = '>BBBd', '>BI4I8dHc0Hc0Hc0', 12
local FLAGS_AT, ATTEMPTS_AT, WORKER_AT = 3, 13, 33
-- How many of the 8 bytes of a number a member of a line has.
local MEMBER_NUMBER = 6

-- Verdicts: the job's state for an applied step, the state plus REFUSED, or GONE for no such job.
local REFUSED, GONE = 10, -1

-- Flags of a place.
local ASKED, HISTORY, RESULT, PROGRESS, HELD, SHORT_RESULT = 1, 2, 4, 8, 16, 32

-- The most bytes of a result that is kept in the place itself: most results are short, and in a
-- hash of their own they would take more memory and time than everything else about a completion.
local MOST_SHORT = 64

local function has(job, flag)
  return bit.band(job.flags, flag) ~= 0
end

local function set(job, flag)
  job.flags = bit.bor(job.flags, flag)
end

local function clear(job, flag)
  job.flags = bit.band(job.flags, bit.bnot(flag))
end

-- Where the payload of a body begins, and where the options before it begin.
local function payload_at(body)
  local size_at = select(6, struct.unpack(BODY, body))
  return size_at + 4 + struct.unpack('>I4', body, size_at), size_at + 4
end

-- Equal places in a line are ordered by age: the number comes first.
local function member_of(number, id)
  return struct.pack('>I6', number) .. id
end

local function number_of(member)
  return (struct.unpack('>I6', member))
end

local function id_of(member)
  return string.sub(member, 7)
end

local function ready_line(queue, kind)
  return queue.base .. ':queued:' .. kind
end

local function held_line(queue, group, kind)
  return queue.base .. ':held:' .. #group .. ':' .. group .. ':' .. kind
end

local function encode_line(queue, job)
  if job.state ~= QUEUED then
    return queue.base .. ':' .. LINES[job.state]
  elseif has(job, HELD) then
    return held_line(queue, job.group, job.kind)
  end
  return ready_line(queue, job.kind)
end

local function read_place(id, packed)
  local job = {id = id}
  local at
  job.state, job.act, job.flags, job.finished, job.priority, job.attempts, job.token, job.started,
    job.worker, job.kind, job.group, at = struct.unpack(PLACE, packed)
  job.rank, job.number = struct.unpack(PLACE_END, packed, #packed - PLACE_END_SIZE + 1)
  job.result = string.sub(packed, at, -PLACE_END_SIZE - 1)
  job.member = member_of(job.number, id)
  return job
end

local function write_place(job)
  return struct.pack(
    PLACE, job.state, job.act, job.flags, job.finished, job.priority, job.attempts, job.token,
    job.started, #job.worker, job.worker, #job.kind, job.kind, #job.group, job.group
  ) .. job.result .. struct.pack(PLACE_END, job.rank, job.number)
end

-- A job that waits in line and no worker has had yet.
local function read_fresh(id, body)
  local _, priority, _, kind, group = struct.unpack(BODY, body)
  local number = struct.unpack('>I8', body, #body - 7)
  return {
    id = id, state = QUEUED, act = 0, flags = 0, finished = 0, number = number,
    priority = priority, attempts = 0, token = 0, rank = 0, started = 0, worker = '',
    kind = kind, group = group, result = '', member = member_of(number, id), fresh = true,
  }
end

-- The flag of a job with this result.
local function result_flag(result)
  return #result <= MOST_SHORT and SHORT_RESULT or RESULT
end

-- false if it has none.
local function result_of(queue, job)
  if has(job, SHORT_RESULT) then
    return job.result
  end
  return has(job, RESULT) and redis.call('HGET', queue.base .. ':result', job.id)
end

local function at_of(queue, job)
  if not job.at then
    job.at = tonumber(redis.call('ZSCORE', job.line or encode_line(queue, job), job.member))
  end
  return job.at
end

local function over(queue, job)
  return job.state >= COMPLETED and at_of(queue, job) <= now
end

-- The jobs of these ids: id → job, absent if there is none, or its retention is over.
-- gate
local function load_jobs(queue, ids)
  local jobs, unseen = {}, {}
  local places = get_many('HMGET', queue.base .. ':place', ids)
  for index, id in ipairs(ids) do
    if places[index] then
      jobs[id] = read_place(id, places[index])
    else
      unseen[#unseen + 1] = id
    end
  end
  local bodies = get_many('HMGET', queue.base .. ':job', unseen)
  for index, id in ipairs(unseen) do
    if bodies[index] then
      jobs[id] = read_fresh(id, bodies[index])
    end
  end
  for id, job in pairs(jobs) do
    job.line = encode_line(queue, job)
    job.was = job.line
    job.over = over(queue, job)
    if job.fresh then
      job.rank = at_of(queue, job)
      -- A job in no line: an error of the server cut its enqueue short, which was never answered.
      jobs[id] = job.rank and job
    end
  end
  return jobs
end

-- Make the line of a kind known to claims of all kinds.
local function open_line(queue, kind)
  redis.call('SADD', queue.base .. ':kinds', kind)
end

-- Write where these jobs stand now.
-- gate
local function save_jobs(queue, jobs)
  local leaving, entering, places = {}, {}, {}
  for _, job in ipairs(jobs) do
    local line = encode_line(queue, job)
    if line ~= job.was and job.was then
      leaving[job.was] = leaving[job.was] or {}
      table.insert(leaving[job.was], job.member)
    end
    if job.state == QUEUED and line ~= job.was then
      open_line(queue, job.kind)
    end
    if job.at then
      entering[line] = entering[line] or {}
      table.insert(entering[line], exact(job.at))
      table.insert(entering[line], job.member)
    end
    table.insert(places, job.id)
    table.insert(places, write_place(job))
    job.was, job.line, job.fresh = line, line, nil
  end
  for line, members in pairs(leaving) do
    call_many('ZREM', line, members)
  end
  for line, members in pairs(entering) do
    call_many('ZADD', line, members)
  end
  call_many('HSET', queue.base .. ':place', places)
end

-- Forget jobs, with everything that was kept of them.
-- gate
local function drop_jobs(queue, jobs)
  local leaving, ids, results, progress = {}, {}, {}, {}
  for _, job in ipairs(jobs) do
    local line = job.was or encode_line(queue, job)
    leaving[line] = leaving[line] or {}
    table.insert(leaving[line], job.member)
    table.insert(ids, job.id)
    if has(job, RESULT) then
      table.insert(results, job.id)
    end
    if has(job, PROGRESS) then
      table.insert(progress, job.id)
    end
    if job.state == PROCESSING then
      hold(queue, job.worker, -1)
    end
    if has(job, HISTORY) then
      redis.call('DEL', queue.base .. ':history:' .. job.id)
    end
    shift(queue, job.state, nil, 1)
  end
  for line, members in pairs(leaving) do
    call_many('ZREM', line, members)
  end
  call_many('HDEL', queue.base .. ':job', ids)
  call_many('HDEL', queue.base .. ':place', ids)
  call_many('HDEL', queue.base .. ':result', results)
  call_many('HDEL', queue.base .. ':progress', progress)
end
