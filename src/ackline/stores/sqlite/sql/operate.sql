-- Retention, and the small key-value room.

-- name: over
-- Terminal jobs of one line past their time.
SELECT p.job, j.id, j.kind, p.attempts
FROM place p INDEXED BY place_line CROSS JOIN job j ON j.num = p.job
WHERE p.slot = ? AND p.at <= ? ORDER BY p.at, p.job LIMIT ?;

-- name: forget_workers
-- Workers long gone that hold nothing.
DELETE FROM worker WHERE queue = ?1 AND expires < ?2
AND id NOT IN (SELECT worker FROM place WHERE slot = ?3);

-- name: forget_all_workers
DELETE FROM worker WHERE queue = ?;

-- name: has_jobs
SELECT 1 FROM slot WHERE queue = ? AND code < 8 AND n > 0 LIMIT 1;

-- name: read_keys
SELECT key, value, version FROM keyval
WHERE tenant = ? AND key >= ? AND key < ? ORDER BY key LIMIT ?;

-- name: key_version
SELECT version FROM keyval WHERE tenant = ? AND key = ?;

-- name: put_key
INSERT INTO keyval (tenant, key, value, version) VALUES (?, ?, ?, ?)
ON CONFLICT (tenant, key) DO UPDATE SET value = excluded.value, version = excluded.version;

-- name: drop_key
DELETE FROM keyval WHERE tenant = ? AND key = ?;
