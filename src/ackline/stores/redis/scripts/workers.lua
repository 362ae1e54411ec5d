-- The workers that have sent a heartbeat, and how many jobs each holds.
--
-- Returns  flat {id, when it was seen and expires (packed) and its sign of life, holds}
--
-- include lib/queue.lua

local found = {}
local all = redis.call('HGETALL', KEYS[1] .. ':workers')
for index = 1, #all, 2 do
  found[#found + 1] = all[index]
  found[#found + 1] = all[index + 1]
  found[#found + 1] = tonumber(redis.call('HGET', KEYS[1] .. ':holds', all[index]) or 0)
end
return found
