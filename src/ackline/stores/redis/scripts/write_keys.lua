-- Apply all writes, or none if one of the versions is not as expected.
--
-- KEYS[1]   the tenant's room for keys
-- ARGV[1…]  encoded key, expected version or '', 'set' or 'drop', value
-- Answers   1 or 0
--
-- include lib/room.lua

for index = 1, #ARGV, 4 do
  if ARGV[index + 1] ~= '' then
    local there = redis.call('HGET', KEYS[1] .. ':values', ARGV[index])
    local version = there and struct.unpack('>I8', there) or 0
    if version ~= tonumber(ARGV[index + 1]) then
      return 0
    end
  end
end
for index = 1, #ARGV, 4 do
  if ARGV[index + 2] == 'set' then
    put_key(KEYS[1], ARGV[index], ARGV[index + 3])
  else
    drop_key(KEYS[1], ARGV[index])
  end
end
return 1
