-- Retention, and the small key-value room.

-- name: past_retention
-- Terminal jobs of one state past their time, locked.
SELECT r.job, j.id, j.kind, r.attempts
FROM (
    SELECT job, at, attempts FROM ackline.inactive
    WHERE queue = %(queue)b::int AND state = %(state)b::smallint AND at <= %(now)b::float8
    ORDER BY at, job LIMIT %(limit)b::bigint FOR UPDATE SKIP LOCKED
) r
CROSS JOIN LATERAL (SELECT id, kind FROM ackline.job WHERE num = r.job OFFSET 0) j
ORDER BY r.at, r.job;

-- name: delete_dead_workers
-- Workers long gone that hold nothing.
DELETE FROM ackline.worker w WHERE w.queue = %(queue)b::int AND w.expires < %(before)b::float8
AND NOT EXISTS (SELECT FROM ackline.lease l WHERE l.queue = w.queue AND l.worker = w.id);

-- name: delete_workers
DELETE FROM ackline.worker WHERE queue = %(queue)b::int;

-- name: read_keys
SELECT key, value, version FROM ackline.key_value
WHERE tenant = %(tenant)b AND key >= %(start)b AND key < %(end)b
ORDER BY key LIMIT %(limit)b::bigint;

-- name: read_keys_within
-- The same, up to the key with which they have so many bytes.
SELECT key, value, version FROM (
    SELECT k.*, sum(octet_length(value)) OVER (
        ORDER BY key ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS before
    FROM (
        SELECT key, value, version FROM ackline.key_value
        WHERE tenant = %(tenant)b AND key >= %(start)b AND key < %(end)b
        ORDER BY key LIMIT %(limit)b::bigint
    ) k
) b WHERE coalesce(before, 0) < %(max_bytes)b::bigint ORDER BY key;

-- name: lock_keys
-- One writer of a tenant's keys at a time: a key that is not there cannot be locked.
SELECT pg_advisory_xact_lock(hashtextextended('ackline.keys', %(tenant)b::bigint));

-- name: key_versions
SELECT key, version FROM ackline.key_value
WHERE tenant = %(tenant)b AND key = ANY (%(keys)b::bytea[]) ORDER BY key FOR UPDATE;

-- name: put_key
INSERT INTO ackline.key_value (tenant, key, value, version)
VALUES (%(tenant)b, %(key)b, %(value)b, nextval('ackline.key_version'))
ON CONFLICT (tenant, key) DO UPDATE SET value = excluded.value, version = excluded.version;

-- name: delete_key
DELETE FROM ackline.key_value WHERE tenant = %(tenant)b AND key = %(key)b;
