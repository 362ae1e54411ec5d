-- Apply all writes, or none if one of the versions is not as expected.
--
-- KEYS[1]   the tenant's room for keys
-- ARGV[1]   'insist' if they are written even if memory is short
-- ARGV[2…]  encoded key, expected version or '', 'set' or 'drop', value
-- Returns   1 or 0
--
-- include lib/key_values.lua

if not as_expected(KEYS[1], 2, #ARGV) then
  return 0
end
if ARGV[1] == 'insist' then
  -- As in lib/queue.lua. No UTF-8 has this byte, so there is no such key.
  redis.call('HDEL', KEYS[1] .. ':values', '\255')
end
write_given(KEYS[1], 2, #ARGV)
return 1
