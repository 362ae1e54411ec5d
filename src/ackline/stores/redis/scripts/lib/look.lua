-- Jobs as a client reads them: flat {id, body, place or '', at, result, progress, ended attempts};
-- the ended attempts only when asked for.

local function look_up(queue, members, ats, wholly)
  local ids = {}
  for index, member in ipairs(members) do
    ids[index] = id_of(member)
  end
  local bodies = get_many('HMGET', queue.base .. ':job', ids)
  local places = get_many('HMGET', queue.base .. ':place', ids)
  local found = {}
  for index, id in ipairs(ids) do
    local place, size = places[index], #found
    local flags = place and string.byte(place, FLAGS_AT) or 0
    found[size + 1], found[size + 2], found[size + 3] = id, bodies[index], place or ''
    found[size + 4] = ats[index]
    found[size + 5] = bit.band(flags, RESULT + SHORT_RESULT) ~= 0
      and result_of(queue, read_place(id, place))
    found[size + 6] = bit.band(flags, PROGRESS) ~= 0
      and redis.call('HGET', queue.base .. ':progress', id)
    found[size + 7] = wholly
        and bit.band(flags, HISTORY) ~= 0
        and redis.call('LRANGE', queue.base .. ':history:' .. id, 0, -1)
      or {}
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

-- Leased jobs past their deadline, the earliest first, without payload, progress and result: many
-- large jobs may have lapsed, and expiring them needs none of that.
-- gate
local function lapsed(queue, limit)
  local line = queue.base .. ':processing'
  local due =
    redis.call('ZRANGEBYSCORE', line, '-inf', exact(now), 'WITHSCORES', 'LIMIT', 0, limit)
  local found, ids = {}, {}
  for index = 1, #due, 2 do
    ids[#ids + 1] = id_of(due[index])
  end
  local bodies = get_many('HMGET', queue.base .. ':job', ids)
  local places = get_many('HMGET', queue.base .. ':place', ids)
  for index, id in ipairs(ids) do
    local size = #found
    local body = bodies[index]
    local number = string.sub(body, -8)
    found[size + 1], found[size + 2] = id, string.sub(body, 1, payload_at(body) - 1) .. number
    found[size + 3], found[size + 4] = places[index], due[2 * index]
    found[size + 5], found[size + 6], found[size + 7] = false, false, {}
  end
  return found
end
