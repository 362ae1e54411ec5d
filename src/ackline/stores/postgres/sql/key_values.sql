-- The key-value store of a tenant.

-- name: read_keys
SELECT key, value, version FROM ackline.key_value
WHERE tenant = %(tenant)b AND key >= %(start)b AND key < %(end)b
ORDER BY key LIMIT %(limit)b::bigint;

-- name: read_keys_within
-- The same, up to the key that reaches the limit of bytes.
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
-- One writer of a tenant's keys at a time, because a missing key cannot be locked.
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
