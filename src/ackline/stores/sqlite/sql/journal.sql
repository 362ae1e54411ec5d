-- The journal.

-- name: add_batch
INSERT INTO journal (num, at, entries) VALUES (?1 << 40 | ?2, ?3, ?4);

-- name: read_queue
SELECT num & 0xffffffffff, ?1, at, entries FROM journal
WHERE num BETWEEN ?1 << 40 | ?2 AND ?1 << 40 | 0xffffffffff ORDER BY num;

-- name: all_heads
-- For each queue with batches from the given number on: the first of them.
SELECT head, num FROM (
    SELECT q.num, (
        SELECT j.num & 0xffffffffff FROM journal j
        WHERE j.num BETWEEN q.num << 40 | ?1 AND q.num << 40 | 0xffffffffff ORDER BY j.num LIMIT 1
    ) AS head
    FROM queue q
) WHERE head IS NOT NULL;

-- name: tenant_heads
-- As `all_heads`, for the queues of one tenant.
SELECT head, num FROM (
    SELECT q.num, (
        SELECT j.num & 0xffffffffff FROM journal j
        WHERE j.num BETWEEN q.num << 40 | ?1 AND q.num << 40 | 0xffffffffff ORDER BY j.num LIMIT 1
    ) AS head
    FROM queue q WHERE q.tenant = ?2
) WHERE head IS NOT NULL;

-- name: queue_name
SELECT tenant, name FROM queue WHERE num = ?;

-- name: oldest_batches
SELECT num & 0xffffffffff, at, entries FROM journal
WHERE num BETWEEN ?1 << 40 AND ?1 << 40 | 0xffffffffff ORDER BY num LIMIT ?2;

-- name: trim_batches
DELETE FROM journal WHERE num BETWEEN ?1 << 40 AND ?1 << 40 | ?2;

-- name: event_count
SELECT count FROM job_list WHERE num = ?;

-- name: set_trimmed
INSERT INTO counter (name, last) VALUES ('trimmed/' || ?, ?)
ON CONFLICT (name) DO UPDATE SET last = excluded.last;

-- name: trimmed_of
SELECT last FROM counter WHERE name = 'trimmed/' || ?;

-- name: trimmed_of_any
-- '0' is the character after '/'.
SELECT max(last) FROM counter WHERE name > 'trimmed/' AND name < 'trimmed0';

-- name: trimmed_of_tenant
SELECT max(c.last) FROM queue q JOIN counter c ON c.name = 'trimmed/' || q.num
WHERE q.tenant = ?;

-- name: last_batch
SELECT count FROM job_list WHERE num = 0;
