-- Jobs as a client reads them: flat {id, body, place or '', at, result, progress, ended attempts}.

-- The ids of the first of these jobs, up to the one with which their bodies have `most` bytes.
local function first_ids(queue, members, most)
  local ids = {}
  for index, member in ipairs(members) do
    if most <= 0 then
      break
    end
    ids[index] = id_of(member)
    most = most - redis.call('HSTRLEN', queue.base .. ':job', ids[index])
  end
  return ids
end

-- Jobs up to the one with which they have `most` bytes, and 1 if there are more of them, or else 0.
local function look_up(queue, members, ats, most)
  local ids = first_ids(queue, members, most)
  local bodies = get_many('HMGET', queue.base .. ':job', ids)
  local places = get_many('HMGET', queue.base .. ':place', ids)
  local found, bytes = {}, 0
  for index, id in ipairs(ids) do
    local place, size = places[index], #found
    local flags = place and string.byte(place, FLAGS_AT) or 0
    local result = bit.band(flags, RESULT + SHORT_RESULT) ~= 0
      and result_of(queue, read_place(id, place))
    local progress = bit.band(flags, PROGRESS) ~= 0
      and redis.call('HGET', queue.base .. ':progress', id)
    local ended = bit.band(flags, HISTORY) ~= 0
        and redis.call('LRANGE', queue.base .. ':history:' .. id, 0, -1)
      or {}
    found[size + 1], found[size + 2], found[size + 3] = id, bodies[index], place or ''
    found[size + 4], found[size + 5], found[size + 6] = ats[index], result, progress
    found[size + 7] = ended
    bytes = bytes + #bodies[index] + #(result or '') + #(progress or '')
    for _, attempt in ipairs(ended) do
      bytes = bytes + #attempt
    end
    if bytes >= most then
      break
    end
  end
  return found, #found < 7 * #members and 1 or 0
end

-- Leased jobs without payload, progress and result: they may be many and large, and taking them
-- back needs none of that.
local function look_up_leased(queue, ids, deadlines)
  local bodies = get_many('HMGET', queue.base .. ':job', ids)
  local places = get_many('HMGET', queue.base .. ':place', ids)
  local found = {}
  for index, id in ipairs(ids) do
    local size = #found
    local body = bodies[index]
    local number = string.sub(body, -8)
    found[size + 1], found[size + 2] = id, string.sub(body, 1, payload_at(body) - 1) .. number
    found[size + 3], found[size + 4] = places[index], deadlines[index]
    found[size + 5], found[size + 6], found[size + 7] = false, false, {}
  end
  return found
end

local function split(pairs_of)
  local members, ats = {}, {}
  for index = 1, #pairs_of, 2 do
    members[#members + 1], ats[#ats + 1] = pairs_of[index], pairs_of[index + 1]
  end
  return members, ats
end

-- Leased jobs past their deadline, the earliest first.
-- gate
local function lapsed(queue, limit)
  local line = queue.base .. ':processing'
  local due =
    redis.call('ZRANGEBYSCORE', line, '-inf', exact(now), 'WITHSCORES', 'LIMIT', 0, limit)
  local members, deadlines = split(due)
  local ids = {}
  for index, member in ipairs(members) do
    ids[index] = id_of(member)
  end
  return look_up_leased(queue, ids, deadlines)
end
