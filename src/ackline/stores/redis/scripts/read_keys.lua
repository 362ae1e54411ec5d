-- The keys that start with a prefix, in order.
--
-- KEYS[1]  the tenant's room for keys
-- ARGV[1]  the encoded prefix
-- ARGV[2]  how many at most
-- Returns  flat {encoded key, version (8 bytes) and value}

local first, limit = ARGV[1], tonumber(ARGV[2])
local names = redis.call(
  'ZRANGEBYLEX', KEYS[1] .. ':names', '[' .. first, '(' .. first .. '\255', 'LIMIT', 0, limit
)
local found = {}
for _, name in ipairs(names) do
  found[#found + 1] = name
  found[#found + 1] = redis.call('HGET', KEYS[1] .. ':values', name)
end
return found
