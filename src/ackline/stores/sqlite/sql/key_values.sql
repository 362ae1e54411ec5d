-- The key-value store of a tenant.

-- name: read_keys
SELECT key, value, version FROM key_value
WHERE tenant = ? AND key >= ? AND key < ? ORDER BY key LIMIT ?;

-- name: key_version
SELECT version FROM key_value WHERE tenant = ? AND key = ?;

-- name: put_key
INSERT INTO key_value (tenant, key, value, version) VALUES (?, ?, ?, ?)
ON CONFLICT (tenant, key) DO UPDATE SET value = excluded.value, version = excluded.version;

-- name: drop_key
DELETE FROM key_value WHERE tenant = ? AND key = ?;
