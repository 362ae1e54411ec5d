-- The small key-value room of a tenant, under its base name:
--   :names    sorted set of the encoded keys, all with score 0, so that they have an order
--   :values   hash: encoded key → version (8 bytes) and value
--   :version  the last version given out

local function put_key(room, name, value)
  local version = redis.call('INCR', room .. ':version')
  redis.call('ZADD', room .. ':names', 0, name)
  redis.call('HSET', room .. ':values', name, struct.pack('>I8', version) .. value)
end

local function drop_key(room, name)
  redis.call('ZREM', room .. ':names', name)
  redis.call('HDEL', room .. ':values', name)
end

-- Writes stand in ARGV, four arguments each: encoded key, expected version or '', 'set' or 'drop',
-- value. Whether all versions from `first` to `last` are as expected:
local function as_expected(room, first, last)
  for index = first, last, 4 do
    if ARGV[index + 1] ~= '' then
      local there = redis.call('HGET', room .. ':values', ARGV[index])
      local version = there and struct.unpack('>I8', there) or 0
      if version ~= tonumber(ARGV[index + 1]) then
        return false
      end
    end
  end
  return true
end

-- gate
local function write_given(room, first, last)
  for index = first, last, 4 do
    if ARGV[index + 2] == 'set' then
      put_key(room, ARGV[index], ARGV[index + 3])
    else
      drop_key(room, ARGV[index])
    end
  end
end
