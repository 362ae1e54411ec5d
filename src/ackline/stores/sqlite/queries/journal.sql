-- The journal.

-- name: add_batch
INSERT INTO journal (cursor, queue, at, entries) VALUES (?, ?, ?, ?);

-- name: read_queue
SELECT cursor, queue, at, entries FROM journal INDEXED BY journal_queue
WHERE queue = ? AND cursor >= ? ORDER BY cursor;

-- name: read_all
SELECT cursor, queue, at, entries FROM journal WHERE cursor >= ? ORDER BY cursor;

-- name: tenant_heads
-- For each queue of a tenant that has batches from a cursor on: the first of them.
SELECT head, num FROM (
    SELECT q.num, (
        SELECT min(j.cursor) FROM journal j INDEXED BY journal_queue
        WHERE j.queue = q.num AND j.cursor >= ?2
    ) AS head
    FROM queue q WHERE q.tenant = ?1
) WHERE head IS NOT NULL;

-- name: queue_name
SELECT tenant, name FROM queue WHERE num = ?;

-- name: oldest_batches
SELECT cursor, at, entries FROM journal INDEXED BY journal_queue
WHERE queue = ? ORDER BY cursor LIMIT ?;

-- name: drop_batches
DELETE FROM journal WHERE queue = ? AND cursor <= ?;

-- name: event_count
SELECT n FROM slot WHERE num = ?;

-- name: set_dropped
INSERT INTO counter (name, last) VALUES ('dropped/' || ?, ?)
ON CONFLICT (name) DO UPDATE SET last = excluded.last;

-- name: dropped_of
SELECT last FROM counter WHERE name = 'dropped/' || ?;

-- name: dropped_of_any
-- '0' is the character after '/'.
SELECT max(last) FROM counter WHERE name > 'dropped/' AND name < 'dropped0';

-- name: dropped_of_tenant
SELECT max(c.last) FROM queue q JOIN counter c ON c.name = 'dropped/' || q.num
WHERE q.tenant = ?;

-- name: last_batch
SELECT n FROM slot WHERE num = 0;
