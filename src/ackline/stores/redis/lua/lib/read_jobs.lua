-- Jobs as a client reads them: flat {id, body, state or '', at, result, progress, history}.

-- The ids of the first of these jobs, until their bodies have `max_bytes`.
local function first_ids(queue, members, max_bytes)
  local ids = {}
  for index, member in ipairs(members) do
    if max_bytes <= 0 then
      break
    end
    ids[index] = id_of(member)
    max_bytes = max_bytes - redis.call('HSTRLEN', queue.base .. ':job', ids[index])
  end
  return ids
end

-- Jobs until they have `max_bytes`, and 1 if there are more of them, else 0.
local function read_jobs(queue, members, scores, max_bytes)
  local ids = first_ids(queue, members, max_bytes)
  local bodies = get_many('HMGET', queue.base .. ':job', ids)
  local packed_states = get_many('HMGET', queue.base .. ':state', ids)
  local found, bytes = {}, 0
  for index, id in ipairs(ids) do
    local packed, size = packed_states[index], #found
    local flags = packed and string.byte(packed, FLAGS_AT) or 0
    local result = bit.band(flags, RESULT + SHORT_RESULT) ~= 0
      and result_of(queue, read_state(id, packed))
    local progress = bit.band(flags, PROGRESS) ~= 0
      and redis.call('HGET', queue.base .. ':progress', id)
    local attempts = bit.band(flags, HISTORY) ~= 0
        and redis.call('LRANGE', queue.base .. ':history:' .. id, 0, -1)
      or {}
    found[size + 1], found[size + 2], found[size + 3] = id, bodies[index], packed or ''
    found[size + 4], found[size + 5], found[size + 6] = scores[index], result, progress
    found[size + 7] = attempts
    bytes = bytes + #bodies[index] + #(result or '') + #(progress or '')
    for _, attempt in ipairs(attempts) do
      bytes = bytes + #attempt
    end
    if bytes >= max_bytes then
      break
    end
  end
  return found, #found < 7 * #members and 1 or 0
end

-- Leased jobs without payload, progress and result: there may be many and they may be large, and
-- expiring them needs none of that.
local function read_leased_jobs(queue, ids, deadlines)
  local bodies = get_many('HMGET', queue.base .. ':job', ids)
  local packed_states = get_many('HMGET', queue.base .. ':state', ids)
  local found = {}
  for index, id in ipairs(ids) do
    local size = #found
    local body = bodies[index]
    local number = string.sub(body, -8)
    found[size + 1], found[size + 2] = id, string.sub(body, 1, find_payload(body) - 1) .. number
    found[size + 3], found[size + 4] = packed_states[index], deadlines[index]
    found[size + 5], found[size + 6], found[size + 7] = false, false, {}
  end
  return found
end

local function split_pairs(pairs_of)
  local members, scores = {}, {}
  for index = 1, #pairs_of, 2 do
    members[#members + 1], scores[#scores + 1] = pairs_of[index], pairs_of[index + 1]
  end
  return members, scores
end

-- Leased jobs past their deadline, the earliest first.
-- on_demand
local function lapsed_jobs(queue, limit)
  local list = queue.base .. ':processing'
  local due =
    redis.call('ZRANGEBYSCORE', list, '-inf', format_float(now), 'WITHSCORES', 'LIMIT', 0, limit)
  local members, deadlines = split_pairs(due)
  local ids = {}
  for index, member in ipairs(members) do
    ids[index] = id_of(member)
  end
  return read_leased_jobs(queue, ids, deadlines)
end
