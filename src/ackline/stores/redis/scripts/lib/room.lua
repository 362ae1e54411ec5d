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
