-- Apply all writes, or none if one of the versions is not as expected.
--
-- KEYS[1]   the tenant's room for keys
-- ARGV[1…]  encoded key, expected version or '', 'set' or 'drop', value
-- Returns   1 or 0
--
-- include lib/room.lua

if not as_expected(KEYS[1], 1, #ARGV) then
  return 0
end
write_given(KEYS[1], 1, #ARGV)
return 1
