-- The key-value store of a tenant, under its base name:
--   :names    sorted set of the encoded keys, all with score 0, so that they have an order
--   :values   hash: encoded key → version (8 bytes) and value
--   :version  the last version issued

local function write_key(base, name, value)
  local version = redis.call('INCR', base .. ':version')
  redis.call('ZADD', base .. ':names', 0, name)
  redis.call('HSET', base .. ':values', name, struct.pack('>I8', version) .. value)
end

local function delete_key(base, name)
  redis.call('ZREM', base .. ':names', name)
  redis.call('HDEL', base .. ':values', name)
end

-- ARGV has four arguments for each write: encoded key, expected version or '', 'set' or 'delete',
-- value. Whether all versions of the writes ARGV[first] to ARGV[last] are the expected ones:
local function versions_match(base, first, last)
  for index = first, last, 4 do
    if ARGV[index + 1] ~= '' then
      local value = redis.call('HGET', base .. ':values', ARGV[index])
      local version = value and struct.unpack('>I8', value) or 0
      if version ~= tonumber(ARGV[index + 1]) then
        return false
      end
    end
  end
  return true
end

-- on_demand
local function write_keys_from_argv(base, first, last)
  for index = first, last, 4 do
    if ARGV[index + 2] == 'set' then
      write_key(base, ARGV[index], ARGV[index + 3])
    else
      delete_key(base, ARGV[index])
    end
  end
end
