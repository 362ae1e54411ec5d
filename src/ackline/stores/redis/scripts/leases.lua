-- The leased jobs that have lapsed, or all that one worker holds.
--
-- ARGV[2]  the worker, or ''
-- ARGV[3]  how many at most
-- Returns  flat {id, body, place, at, result, progress, {}}
--
-- include lib/queue.lua
-- include lib/job.lua
-- include lib/look.lua

local queue = open_queue(KEYS[1])
if not queue then
  return {}
end
local worker, limit = ARGV[2], tonumber(ARGV[3])
if worker == '' then
  return lapsed(queue, limit)
end

local members, ats = split(redis.call('ZRANGE', queue.base .. ':processing', 0, -1, 'WITHSCORES'))
local ids = {}
for index, member in ipairs(members) do
  ids[index] = id_of(member)
end
local held, named = {}, struct.pack('>Hc0', #worker, worker)
for index, place in ipairs(get_many('HMGET', queue.base .. ':place', ids)) do
  if string.find(place, named, WORKER_AT, true) == WORKER_AT then
    held[#held + 1] = {number_of(members[index]), members[index], ats[index]}
  end
end
table.sort(held, function(one, other) return one[1] < other[1] end)
local found, deadlines = {}, {}
for index = 1, math.min(limit, #held) do
  found[index], deadlines[index] = held[index][2], held[index][3]
end
return look_up(queue, found, deadlines)
