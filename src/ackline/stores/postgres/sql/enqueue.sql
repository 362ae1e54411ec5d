-- Inserting jobs.

-- name: insert_one
-- One job that is believed to be new; returns when it was inserted. Returns no row, and changes
-- nothing, if its id exists, or if the queue has changed since it was cached.
WITH unchanged AS (
    SELECT coalesce(%(now)b::float8, extract(epoch FROM clock_timestamp())::float8) AS now
    FROM ackline.queue WHERE num = %(queue)b::int AND version = %(version)b::bigint
), inserted AS (
    INSERT INTO ackline.job (num, queue, id, kind, job_group, priority, created, options, payload)
    SELECT nextval('ackline.job_num'), %(queue)b::int, %(id)b, %(kind)b, %(group)b,
           %(priority)b::bigint, now, %(options)b, %(payload)b
    FROM unchanged
    ON CONFLICT (queue, id) DO NOTHING RETURNING num, priority, created
), queued AS (
    INSERT INTO ackline.ready (kind_id, lane, rank, job)
    SELECT %(kind_id)b::bigint, priority, created - priority * %(ageing)b::float8, num FROM inserted
    WHERE %(delay)b::float8 <= 0
), scheduled AS (
    INSERT INTO ackline.inactive (job, queue, state, at)
    SELECT num, %(queue)b::int, 0, created + %(delay)b::float8 FROM inserted
    WHERE %(delay)b::float8 > 0
)
SELECT created, set_config('ackline_transaction.inserted', 'yes', true) FROM inserted;

-- name: insert_new
-- Several jobs that are believed to be new; returns when they were inserted. Returns NULL, and
-- changes nothing, if an id exists, or if the queue has changed since it was cached.
SELECT ackline.insert_new(
    %(queue)b::int, %(version)b::bigint, %(now)b::float8, %(ageing)b::float8,
    %(ids)b::bytea[], %(kinds)b::bytea[], %(groups)b::bytea[], %(priorities)b::bigint[],
    %(delays)b::float8[], %(options)b::bytea[], %(payloads)b::bytea[], %(kind_ids)b::bigint[]
);

-- name: find_existing
-- The jobs of these ids, with their states, in one snapshot.
SELECT j.id, j.num, j.kind, r.state, r.at, r.result, q.queued IS NOT NULL
FROM unnest(%(ids)b::bytea[]) i(id)
CROSS JOIN LATERAL (
    SELECT num, id, kind FROM ackline.job WHERE queue = %(queue)b::int AND id = i.id OFFSET 0
) j
LEFT JOIN LATERAL (
    SELECT state, at, CASE WHEN state = 4 THEN result END AS result
    FROM ackline.inactive WHERE job = j.num OFFSET 0
) r ON true
-- Not EXISTS, whose plan might read all queued jobs into a hash table.
LEFT JOIN LATERAL (
    SELECT true AS queued FROM ackline.ready WHERE job = j.num
    UNION ALL SELECT true FROM ackline.parked WHERE job = j.num
    LIMIT 1
) q ON true;

-- name: lock_replaceable
-- The jobs that are still failed, cancelled or past their retention. (`+ 0`: see apply.sql)
SELECT job, state FROM ackline.inactive
WHERE job = ANY (%(jobs)b::bigint[]) AND queue + 0 = %(queue)b::int
  AND (state >= 5 OR (state = 4 AND at <= %(now)b::float8))
ORDER BY job FOR UPDATE;

-- name: add_jobs
-- Returns which jobs were new; they are numbered and inserted as in `insert_new`.
WITH given AS MATERIALIZED (
    SELECT nextval('ackline.job_num') AS num, g.*
    FROM unnest(
        %(ids)b::bytea[], %(kinds)b::bytea[], %(groups)b::bytea[], %(priorities)b::bigint[],
        %(options)b::bytea[], %(payloads)b::bytea[]
    ) g(id, kind, job_group, priority, options, payload)
)
INSERT INTO ackline.job (num, queue, id, kind, job_group, priority, created, options, payload)
SELECT num, %(queue)b::int, id, kind, job_group, priority, %(now)b::float8, options, payload
FROM given ORDER BY id
ON CONFLICT DO NOTHING RETURNING id, num;

-- name: delete_jobs
WITH deleted AS (
    SELECT num FROM unnest(%(jobs)b::bigint[]) g(num)
), a AS (DELETE FROM ackline.job WHERE num IN (SELECT num FROM deleted)
), b AS (DELETE FROM ackline.inactive WHERE job IN (SELECT num FROM deleted)
), c AS (DELETE FROM ackline.ready WHERE job IN (SELECT num FROM deleted)
), d AS (DELETE FROM ackline.parked WHERE job IN (SELECT num FROM deleted)
), e AS (DELETE FROM ackline.attempt WHERE job IN (SELECT num FROM deleted)
)
DELETE FROM ackline.progress WHERE job IN (SELECT num FROM deleted);

-- name: live_count
SELECT coalesce(sum(states[1] + states[2] + states[3] + states[4]), 0)::bigint, count(*)
FROM ackline.count_change WHERE queue = %(queue)b::int;

-- name: lock_capacity
-- One transaction at a time: each must count the jobs that the previous one has added.
SELECT pg_advisory_xact_lock(hashtextextended('ackline.capacity', %(queue)b::bigint));
