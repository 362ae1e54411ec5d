-- Apply all writes, or none if one of the versions is not as expected.
--
-- KEYS[1]   the base name of a key-value store
-- ARGV[1]   'even_if_full' if they must be written even if no memory is left
-- ARGV[2…]  encoded key, expected version or '', 'set' or 'delete', value
-- Returns   1 or 0
--
-- include lib/key_values.lua

if not versions_match(KEYS[1], 2, #ARGV) then
  return 0
end
if ARGV[1] == 'even_if_full' then
  -- As in lib/queue.lua. No UTF-8 has this byte, so there is no such key.
  redis.call('HDEL', KEYS[1] .. ':values', '\255')
end
write_keys_from_argv(KEYS[1], 2, #ARGV)
return 1
