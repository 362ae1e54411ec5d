-- Transitions.
--
-- `queue + 0` matches no index, so that rows are found by the other columns. In an empty table, all
-- indexes seem equal, and a plan cached then might read a whole queue to find one job, for as long
-- as its session lasts.

-- name: add_ready
INSERT INTO ackline.ready (kind_id, lane, rank, job, attempts, token, worker, started, act)
SELECT p.kind_id, p.lane, p.rank, p.job, p.attempts, nullif(p.token, 0), p.worker,
       nullif(p.started, '-infinity'), nullif(p.act, -1)
FROM unnest(%(kind_ids)b::bigint[], %(lanes)b::bigint[], %(ranks)b::float8[], %(jobs)b::bigint[],
            %(attempts)b::bigint[], %(tokens)b::bigint[], %(workers)b::bytea[],
            %(starts)b::float8[], %(acts)b::bigint[])
     p(kind_id, lane, rank, job, attempts, token, worker, started, act);

-- name: add_inactive
INSERT INTO ackline.inactive
    (job, queue, state, at, attempts, token, worker, started, act, finished, result)
SELECT p.job, %(queue)b::int, p.state, p.at, coalesce(p.attempts, 0), nullif(p.token, 0), p.worker,
       nullif(p.started, '-infinity'), nullif(p.act, -1), nullif(p.finished, '-infinity'), p.result
FROM unnest(%(jobs)b::bigint[], %(states)b::bigint[], %(times)b::float8[],
            %(attempts)b::bigint[], %(tokens)b::bigint[], %(workers)b::bytea[],
            %(starts)b::float8[], %(acts)b::bigint[], %(finished)b::float8[], %(results)b::bytea[])
     p(job, state, at, attempts, token, worker, started, act, finished, result);

-- name: complete_jobs
-- Many completions of one lease.
INSERT INTO ackline.inactive
    (job, queue, state, at, attempts, token, worker, started, act, finished, result)
SELECT p.job, %(queue)b::int, 4, p.at, p.attempts, %(token)b::bigint, %(worker)b::bytea,
       %(started)b::float8, 0, %(now)b::float8, p.result
FROM unnest(%(jobs)b::bigint[], %(times)b::float8[], %(attempts)b::bigint[], %(results)b::bytea[])
     p(job, at, attempts, result);

-- name: lock_jobs
-- The jobs of these ids; rows in other tables than `lease` are locked. A job that has just left its
-- table, or its queue, is returned without one.
WITH wanted AS MATERIALIZED (
    SELECT j.* FROM unnest(%(ids)b::bytea[]) i(id)
    CROSS JOIN LATERAL (
        SELECT num, id, kind, job_group, priority FROM ackline.job
        WHERE queue = %(queue)b::int AND id = i.id OFFSET 0
    ) j
), a AS MATERIALIZED (
    SELECT job, lane, rank AS at, attempts, token, worker, started, act FROM ackline.ready
    WHERE job = ANY (ARRAY(SELECT num FROM wanted)) ORDER BY job FOR UPDATE
), b AS MATERIALIZED (
    SELECT job, rank AS at, attempts, token, worker, started, act FROM ackline.parked
    WHERE job = ANY (ARRAY(SELECT num FROM wanted)) ORDER BY job FOR UPDATE
), c AS MATERIALIZED (
    SELECT job, state, at, attempts, token, worker, started, act, finished FROM ackline.inactive
    WHERE job = ANY (ARRAY(SELECT num FROM wanted)) AND queue + 0 = %(queue)b::int
    ORDER BY job FOR UPDATE
)
SELECT w.num, w.id, w.kind, w.job_group, w.priority, h.in_table, h.state, h.at, h.attempts, h.token,
       h.worker, h.started, h.act, h.finished
FROM wanted w LEFT JOIN (
    SELECT job, 1 AS in_table, 1 AS state, at, attempts, token, worker, started, act,
           NULL::float8 AS finished FROM a
    UNION ALL SELECT job, 2, 1, at, attempts, token, worker, started, act, NULL FROM b
    UNION ALL SELECT job, 3, state, at, attempts, token, worker, started, act, finished FROM c
) h ON h.job = w.num;

-- name: find_jobs
-- The same without locks, for transitions that can change only a lease.
SELECT j.num, j.id, j.kind, j.job_group, j.priority, h.in_table, h.state, h.at, h.attempts, h.token,
       h.worker, h.started, h.act, h.finished
FROM unnest(%(ids)b::bytea[]) i(id)
CROSS JOIN LATERAL (
    SELECT num, id, kind, job_group, priority FROM ackline.job
    WHERE queue = %(queue)b::int AND id = i.id OFFSET 0
) j
LEFT JOIN LATERAL (
    SELECT 1 AS in_table, 1 AS state, rank AS at, attempts, token, worker, started, act,
           NULL::float8 AS finished
    FROM ackline.ready WHERE job = j.num
    UNION ALL
    SELECT 2, 1, rank, attempts, token, worker, started, act, NULL
    FROM ackline.parked WHERE job = j.num
    UNION ALL
    SELECT 3, state, at, attempts, token, worker, started, act, finished
    FROM ackline.inactive WHERE job = j.num AND queue + 0 = %(queue)b::int
) h ON true;

-- name: priorities
-- Read once the jobs are locked, because they may have changed before.
SELECT num, priority FROM ackline.job WHERE num = ANY (%(jobs)b::bigint[]);

-- name: options_of
-- The options of these jobs, without the jobs that have none.
SELECT num, options FROM ackline.job
WHERE num = ANY (%(jobs)b::bigint[]) AND options IS NOT NULL;

-- name: lock_leases
-- The leases of these tokens; if jobs are given, only those that have one of them.
SELECT num, token, worker, started, deadline, jobs, attempts, ranks, cancel_requested
FROM ackline.lease WHERE token = ANY (%(tokens)b::bigint[]) AND queue + 0 = %(queue)b::int
  AND (%(jobs)b::bigint[] IS NULL OR jobs && %(jobs)b::bigint[])
ORDER BY num + 0 FOR UPDATE;

-- name: lock_free_leases
-- The same, without leases that another transaction has locked.
SELECT num, token, worker, started, deadline, jobs, attempts, ranks, cancel_requested
FROM ackline.lease WHERE token = ANY (%(tokens)b::bigint[]) AND queue + 0 = %(queue)b::int
  AND (%(jobs)b::bigint[] IS NULL OR jobs && %(jobs)b::bigint[])
ORDER BY num + 0 FOR UPDATE SKIP LOCKED;

-- name: read_leases
-- The same without locks, as last committed.
SELECT num, token, worker, started, deadline, jobs, attempts, ranks, cancel_requested
FROM ackline.lease WHERE token = ANY (%(tokens)b::bigint[]) AND queue + 0 = %(queue)b::int
  AND (%(jobs)b::bigint[] IS NULL OR jobs && %(jobs)b::bigint[]);

-- name: lock_leases_of
SELECT num, token, worker, started, deadline, jobs, attempts, ranks, cancel_requested
FROM ackline.lease WHERE queue = %(queue)b::int AND jobs && %(jobs)b::bigint[]
ORDER BY num FOR UPDATE;

-- name: lock_free_leases_of
SELECT num, token, worker, started, deadline, jobs, attempts, ranks, cancel_requested
FROM ackline.lease WHERE queue = %(queue)b::int AND jobs && %(jobs)b::bigint[]
ORDER BY num FOR UPDATE SKIP LOCKED;

-- name: add_lease
INSERT INTO ackline.lease
    (token, queue, worker, started, deadline, jobs, attempts, ranks, cancel_requested)
VALUES (%(token)b::bigint, %(queue)b::int, %(worker)b, %(started)b::float8, %(deadline)b::float8,
        %(jobs)b::bigint[], %(attempts)b::bigint[], %(ranks)b::float8[],
        %(cancel_requested)b::bigint[]);

-- name: set_lease
UPDATE ackline.lease
SET deadline = %(deadline)b::float8, jobs = %(jobs)b::bigint[], attempts = %(attempts)b::bigint[],
    ranks = %(ranks)b::float8[], cancel_requested = %(cancel_requested)b::bigint[]
WHERE num = %(num)b::bigint;

-- name: delete_leases
DELETE FROM ackline.lease WHERE num = ANY (%(nums)b::bigint[]);

-- name: delete_ready
DELETE FROM ackline.ready WHERE job = ANY (%(jobs)b::bigint[]);

-- name: delete_parked
DELETE FROM ackline.parked WHERE job = ANY (%(jobs)b::bigint[]);

-- name: delete_inactive
DELETE FROM ackline.inactive WHERE job = ANY (%(jobs)b::bigint[]);

-- name: update_inactive
-- Move jobs from one inactive state to another.
UPDATE ackline.inactive r
SET state = p.state, at = p.at, attempts = p.attempts, finished = nullif(p.finished, '-infinity')
FROM unnest(%(jobs)b::bigint[], %(states)b::bigint[], %(times)b::float8[], %(attempts)b::bigint[],
            %(finished)b::float8[]) p(job, state, at, attempts, finished)
WHERE r.job = p.job;

-- name: edit_job
UPDATE ackline.job SET payload = coalesce(%(payload)b::bytea, payload),
                       priority = coalesce(%(priority)b::bigint, priority)
WHERE num = %(job)b::bigint;

-- name: set_progress
INSERT INTO ackline.progress (job, token, data)
VALUES (%(job)b::bigint, %(token)b::bigint, %(data)b)
ON CONFLICT (job) DO UPDATE SET token = excluded.token, data = excluded.data;

-- name: add_attempts
INSERT INTO ackline.attempt (job, n, failure)
SELECT p.job,
       coalesce((SELECT a.n FROM ackline.attempt a WHERE a.job = p.job
                 ORDER BY n DESC LIMIT 1), 0) + 1,
       p.failure
FROM unnest(%(jobs)b::bigint[], %(failures)b::bytea[]) p(job, failure);

-- name: trim_attempts
-- Keep only the last failures of each job.
DELETE FROM ackline.attempt a
USING (SELECT num FROM unnest(%(jobs)b::bigint[]) j(num)) j
WHERE a.job = j.num AND a.n <= (
    SELECT l.n FROM ackline.attempt l WHERE l.job = j.num ORDER BY n DESC LIMIT 1
) - %(keep)b::int;

-- name: attempts_of
SELECT job, failure FROM ackline.attempt WHERE job = ANY (%(jobs)b::bigint[]) ORDER BY job, n;

-- name: payload_of
SELECT payload FROM ackline.job WHERE num = %(job)b::bigint;

-- name: result_of
SELECT result FROM ackline.inactive WHERE job = %(job)b::bigint;

-- name: copy_payload_to_key
INSERT INTO ackline.key_value (tenant, key, value, version)
SELECT %(tenant)b, %(key)b, payload, nextval('ackline.key_version')
FROM ackline.job WHERE num = %(job)b::bigint
ON CONFLICT (tenant, key) DO UPDATE SET value = excluded.value, version = excluded.version;

-- name: move_job
-- Deletes and inserts the row. If another transaction has just inserted the same id in the target,
-- no row is returned and the transaction must be rolled back, because the job is deleted.
WITH deleted AS (
    DELETE FROM ackline.job WHERE num = %(job)b::bigint
    RETURNING num, id, kind, job_group, priority, created, options, payload
)
INSERT INTO ackline.job (num, queue, id, kind, job_group, priority, created, options, payload)
SELECT num, %(queue)b::int, id, kind, job_group, priority, created, options, payload FROM deleted
ON CONFLICT (queue, id) DO NOTHING RETURNING num;

-- name: move_inactive
UPDATE ackline.inactive SET queue = %(queue)b::int WHERE job = %(job)b::bigint;
