-- The workers that have given a sign of life, and how many jobs each holds.
--
-- Answers  flat {id, when it was seen and expires (packed) and its sign of life, holds}
--
-- include lib/queue.lua
-- include lib/job.lua

local base = KEYS[1]
local ids, holds = {}, {}
for index, member in ipairs(redis.call('ZRANGE', base .. ':processing', 0, -1)) do
  ids[index] = id_of(member)
end
for index, place in ipairs(get_many('HMGET', base .. ':place', ids)) do
  local worker = read_place(ids[index], place).worker
  holds[worker] = (holds[worker] or 0) + 1
end
local found = {}
local all = redis.call('HGETALL', base .. ':workers')
for index = 1, #all, 2 do
  found[#found + 1] = all[index]
  found[#found + 1] = all[index + 1]
  found[#found + 1] = holds[all[index]] or 0
end
return found
