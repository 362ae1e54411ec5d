-- The entries between two keys, in order.
--
-- KEYS[1]  the base name of a key-value store
-- ARGV[1]  the lowest encoded key that may be read
-- ARGV[2]  the upper bound, which is not read
-- ARGV[3]  the most entries
-- ARGV[4]  the most bytes of values, or '': it stops once it has them
-- Returns  flat {encoded key, version (8 bytes) and value}

local names = redis.call(
  'ZRANGEBYLEX', KEYS[1] .. ':names', '[' .. ARGV[1], '(' .. ARGV[2], 'LIMIT', 0, ARGV[3]
)
local found, left = {}, tonumber(ARGV[4]) or math.huge
for _, name in ipairs(names) do
  local value = redis.call('HGET', KEYS[1] .. ':values', name)
  found[#found + 1], found[#found + 2] = name, value
  left = left - (#value - 8)
  if left <= 0 then
    break
  end
end
return found
