-- A job: its body, which is written once, and its state, which changes.
--
-- Body   (hash :job)    creation time, priority, lease or 0, kind, group, options, payload, number
-- State  (hash :state)  absent while a job is queued and was never leased
--
-- Fields in which neighbouring jobs differ are at the end; those that they mostly share come in one
-- piece before them. That piece is compared with `string.find`, because every string that Lua
-- creates costs time for each of its bytes.

local BODY = '>dBdHc0Hc0'
local STATE = '>BBBdBI4I8dHc0Hc0Hc0'
-- Then follow the result, if it is short, the rank and the number.
local STATE_END, STATE_END_SIZE = '>dI8', 16
-- The fields that a completion changes are in the front, so that it can keep the rest as it is. The
-- middle, up to the result, is the same for all jobs of a kind that were claimed together.
local FRONT, MIDDLE, MIDDLE_AT = '>BBBd', '>BI4I8dHc0Hc0Hc0', 12
local FLAGS_AT, ATTEMPTS_AT, WORKER_AT = 3, 13, 33
-- How many of the 8 bytes of a number a member of a list has.
local MEMBER_NUMBER = 6

-- Verdicts: the job's state if the transition was applied, the state plus REFUSED if not, or NO_JOB
-- if there is no such job.
local REFUSED, NO_JOB = 10, -1

-- Flags of a state.
local CANCEL_REQUESTED, HISTORY, RESULT, PROGRESS, PARKED, SHORT_RESULT = 1, 2, 4, 8, 16, 32

-- Results of up to this many bytes are stored in the state. Most results are short, and in a hash
-- of their own they would take more memory and time than everything else about a completion.
local MAX_SHORT_RESULT = 64

local function has_flag(job, flag)
  return bit.band(job.flags, flag) ~= 0
end

local function set_flag(job, flag)
  job.flags = bit.bor(job.flags, flag)
end

local function clear_flag(job, flag)
  job.flags = bit.band(job.flags, bit.bnot(flag))
end

-- Where the payload of a body starts, and where the options before it start.
local function find_payload(body)
  local size_at = select(6, struct.unpack(BODY, body))
  return size_at + 4 + struct.unpack('>I4', body, size_at), size_at + 4
end

-- Members with the same score are ordered by age, because the number comes first.
local function member_of(number, id)
  return struct.pack('>I6', number) .. id
end

local function number_of(member)
  return (struct.unpack('>I6', member))
end

local function id_of(member)
  return string.sub(member, 7)
end

local function ready_key(queue, kind)
  return queue.base .. ':queued:' .. kind
end

local function parked_key(queue, group, kind)
  return queue.base .. ':parked:' .. #group .. ':' .. group .. ':' .. kind
end

local function list_key(queue, job)
  if job.state ~= QUEUED then
    return queue.base .. ':' .. LISTS[job.state]
  elseif has_flag(job, PARKED) then
    return parked_key(queue, job.group, job.kind)
  end
  return ready_key(queue, job.kind)
end

local function read_state(id, packed)
  local job = {id = id}
  local at
  job.state, job.act, job.flags, job.finished, job.priority, job.attempts, job.token, job.started,
    job.worker, job.kind, job.group, at = struct.unpack(STATE, packed)
  job.rank, job.number = struct.unpack(STATE_END, packed, #packed - STATE_END_SIZE + 1)
  job.result = string.sub(packed, at, -STATE_END_SIZE - 1)
  job.member = member_of(job.number, id)
  return job
end

local function write_state(job)
  return struct.pack(
    STATE, job.state, job.act, job.flags, job.finished, job.priority, job.attempts, job.token,
    job.started, #job.worker, job.worker, #job.kind, job.kind, #job.group, job.group
  ) .. job.result .. struct.pack(STATE_END, job.rank, job.number)
end

-- A queued job that was never leased.
local function read_never_leased(id, body)
  local _, priority, _, kind, group = struct.unpack(BODY, body)
  local number = struct.unpack('>I8', body, #body - 7)
  return {
    id = id, state = QUEUED, act = 0, flags = 0, finished = 0, number = number,
    priority = priority, attempts = 0, token = 0, rank = 0, started = 0, worker = '',
    kind = kind, group = group, result = '', member = member_of(number, id), never_leased = true,
  }
end

-- The flag for a result of this size.
local function result_flag(result)
  return #result <= MAX_SHORT_RESULT and SHORT_RESULT or RESULT
end

-- false if it has none.
local function result_of(queue, job)
  if has_flag(job, SHORT_RESULT) then
    return job.result
  end
  return has_flag(job, RESULT) and redis.call('HGET', queue.base .. ':result', job.id)
end

local function at_of(queue, job)
  if not job.at then
    job.at = tonumber(redis.call('ZSCORE', job.list or list_key(queue, job), job.member))
  end
  return job.at
end

local function past_retention(queue, job)
  return job.state >= COMPLETED and at_of(queue, job) <= now
end

-- The jobs of these ids: id → job, without ids that have no job.
-- on_demand
local function load_jobs(queue, ids)
  local jobs, never_leased = {}, {}
  local packed_states = get_many('HMGET', queue.base .. ':state', ids)
  for index, id in ipairs(ids) do
    if packed_states[index] then
      jobs[id] = read_state(id, packed_states[index])
    else
      never_leased[#never_leased + 1] = id
    end
  end
  local bodies = get_many('HMGET', queue.base .. ':job', never_leased)
  for index, id in ipairs(never_leased) do
    if bodies[index] then
      jobs[id] = read_never_leased(id, bodies[index])
    end
  end
  for id, job in pairs(jobs) do
    job.list = list_key(queue, job)
    job.old_list = job.list
    job.past_retention = past_retention(queue, job)
    if job.never_leased then
      job.rank = at_of(queue, job)
      -- A job without a rank is in no list: an error of the server interrupted its enqueue.
      jobs[id] = job.rank and job
    end
  end
  return jobs
end

-- Let claims of all kinds know of this one.
local function register_kind(queue, kind)
  redis.call('SADD', queue.base .. ':kinds', kind)
end

-- Write the states of these jobs, and move them to the lists where they belong.
-- on_demand
local function save_jobs(queue, jobs)
  local leaving, entering, packed_states = {}, {}, {}
  for _, job in ipairs(jobs) do
    local list = list_key(queue, job)
    if list ~= job.old_list and job.old_list then
      leaving[job.old_list] = leaving[job.old_list] or {}
      table.insert(leaving[job.old_list], job.member)
    end
    if job.state == QUEUED and list ~= job.old_list then
      register_kind(queue, job.kind)
    end
    if job.at then
      entering[list] = entering[list] or {}
      table.insert(entering[list], format_float(job.at))
      table.insert(entering[list], job.member)
    end
    table.insert(packed_states, job.id)
    table.insert(packed_states, write_state(job))
    job.old_list, job.list, job.never_leased = list, list, nil
  end
  for list, members in pairs(leaving) do
    call_many('ZREM', list, members)
  end
  for list, members in pairs(entering) do
    call_many('ZADD', list, members)
  end
  call_many('HSET', queue.base .. ':state', packed_states)
end

-- Delete jobs with everything that is stored for them.
-- on_demand
local function delete_jobs(queue, jobs)
  local leaving, ids, results, progress = {}, {}, {}, {}
  for _, job in ipairs(jobs) do
    local list = job.old_list or list_key(queue, job)
    leaving[list] = leaving[list] or {}
    table.insert(leaving[list], job.member)
    table.insert(ids, job.id)
    if has_flag(job, RESULT) then
      table.insert(results, job.id)
    end
    if has_flag(job, PROGRESS) then
      table.insert(progress, job.id)
    end
    if job.state == PROCESSING then
      change_lease_count(queue, job.worker, -1)
    end
    if has_flag(job, HISTORY) then
      redis.call('DEL', queue.base .. ':history:' .. job.id)
    end
    change_counts(queue, job.state, nil, 1)
  end
  for list, members in pairs(leaving) do
    call_many('ZREM', list, members)
  end
  call_many('HDEL', queue.base .. ':job', ids)
  call_many('HDEL', queue.base .. ':state', ids)
  call_many('HDEL', queue.base .. ':result', results)
  call_many('HDEL', queue.base .. ':progress', progress)
end
