-- Reading jobs and workers. Rows of jobs have the same columns in all statements.

-- name: read_jobs
-- The jobs of these ids, in their order, up to the one that reaches the limit of bytes; the last
-- column adds these up. Jobs without a state are leased.
SELECT num, id, kind, payload, priority, options, created, state, at, attempts, token, worker,
       started, finished, false, progress, result, bytes
FROM (
    SELECT l.*, sum(size) OVER (ORDER BY n ROWS UNBOUNDED PRECEDING)::bigint AS bytes
    FROM (
        SELECT j.*, h.state, h.at, h.attempts, h.token, h.worker, h.started, h.finished,
               CASE WHEN p.token = h.token THEN p.data END AS progress, h.result, i.n,
               octet_length(j.payload) + coalesce(octet_length(j.options), 0)
               + coalesce(octet_length(p.data), 0) + coalesce(octet_length(h.result), 0)
               + e.size AS size
        FROM unnest(%(ids)b::bytea[]) WITH ORDINALITY i(id, n)
        CROSS JOIN LATERAL (
            SELECT * FROM ackline.job WHERE queue = %(queue)b::int AND id = i.id OFFSET 0
        ) j
        LEFT JOIN LATERAL (
            SELECT 1 AS state, rank AS at, attempts, token, worker, started,
                   NULL::float8 AS finished, NULL::bytea AS result
            FROM ackline.ready WHERE job = j.num
            UNION ALL
            SELECT 1, rank, attempts, token, worker, started, NULL, NULL
            FROM ackline.parked WHERE job = j.num
            UNION ALL
            SELECT state, at, attempts, token, worker, started, finished, result
            FROM ackline.inactive WHERE job = j.num
        ) h ON true
        LEFT JOIN LATERAL (
            SELECT token, data FROM ackline.progress WHERE job = j.num OFFSET 0
        ) p ON true
        CROSS JOIN LATERAL (
            SELECT coalesce(sum(octet_length(failure)), 0)::bigint AS size
            FROM ackline.attempt WHERE job = j.num
        ) e
    ) l
) b WHERE %(max_bytes)b::bigint IS NULL OR bytes - size < %(max_bytes)b::bigint
ORDER BY n;

-- name: leases_of_jobs
-- The leases of these jobs, with all jobs that share them.
SELECT u.job, l.deadline, u.attempts, l.token, l.worker, l.started,
       u.job = ANY (l.cancel_requested), p.data
FROM ackline.lease l CROSS JOIN LATERAL unnest(l.jobs, l.attempts) u(job, attempts)
LEFT JOIN LATERAL (
    SELECT data FROM ackline.progress WHERE job = u.job AND token = l.token OFFSET 0
) p ON true
WHERE l.queue = %(queue)b::int AND l.jobs && %(jobs)b::bigint[];

-- Lists end with the job that reaches the limit of bytes, which the last column adds up.

-- name: list_queued
-- Queued jobs by rank, after a position. A filter that is NULL excludes no jobs.
SELECT num, id, kind, payload, priority, options, created, 1, at, attempts, token, worker, started,
       NULL::float8, false, progress, NULL::bytea, bytes
FROM (
    SELECT l.*, sum(size) OVER (ORDER BY at /*asc*/, num /*asc*/ ROWS UNBOUNDED PRECEDING)::bigint
               AS bytes
    FROM (
        SELECT j.*, h.rank AS at, h.attempts, h.token, h.worker, h.started, p.data AS progress,
               octet_length(j.payload) + coalesce(octet_length(j.options), 0)
               + coalesce(octet_length(p.data), 0) + coalesce(e.size, 0) AS size
        FROM (
            SELECT r.* FROM ackline.queue_kind l CROSS JOIN generate_series(0, 20) g(lane)
            CROSS JOIN LATERAL (
                SELECT q.rank, q.job, q.attempts, q.token, q.worker, q.started FROM ackline.ready q
                CROSS JOIN LATERAL (
                    SELECT created, payload, options FROM ackline.job WHERE num = q.job OFFSET 0
                ) b
                WHERE q.kind_id = l.num AND q.lane = g.lane::smallint
                  AND (q.rank, q.job) /*after*/ > (%(at)b::float8, %(after)b::bigint)
                  AND (%(created_after)b::float8 IS NULL OR b.created >= %(created_after)b::float8)
                  AND (%(created_before)b::float8 IS NULL OR b.created < %(created_before)b::float8)
                  AND (%(text)b::bytea IS NULL OR position(%(text)b::bytea IN b.payload) > 0)
                  AND (%(tag)b::bytea IS NULL OR position(%(tag)b::bytea IN b.options) > 0)
                ORDER BY q.rank /*asc*/, q.job /*asc*/ LIMIT %(limit)b::bigint
            ) r
            WHERE l.queue = %(queue)b::int
              AND (%(kinds)b::bytea[] IS NULL OR l.kind = ANY (%(kinds)b::bytea[]))
            UNION ALL
            SELECT q.rank, q.job, q.attempts, q.token, q.worker, q.started FROM ackline.parked q
            CROSS JOIN LATERAL (
                SELECT kind, created, payload, options FROM ackline.job WHERE num = q.job OFFSET 0
            ) b
            WHERE q.queue = %(queue)b::int
              AND (q.rank, q.job) /*after*/ > (%(at)b::float8, %(after)b::bigint)
              AND (%(kinds)b::bytea[] IS NULL OR b.kind = ANY (%(kinds)b::bytea[]))
              AND (%(created_after)b::float8 IS NULL OR b.created >= %(created_after)b::float8)
              AND (%(created_before)b::float8 IS NULL OR b.created < %(created_before)b::float8)
              AND (%(text)b::bytea IS NULL OR position(%(text)b::bytea IN b.payload) > 0)
              AND (%(tag)b::bytea IS NULL OR position(%(tag)b::bytea IN b.options) > 0)
            ORDER BY 1 /*asc*/, 2 /*asc*/ LIMIT %(limit)b::bigint
        ) h
        CROSS JOIN LATERAL (SELECT * FROM ackline.job WHERE num = h.job OFFSET 0) j
        LEFT JOIN LATERAL (
            SELECT data FROM ackline.progress WHERE job = j.num AND token = h.token OFFSET 0
        ) p ON true
        LEFT JOIN LATERAL (
            SELECT sum(octet_length(failure))::bigint AS size
            FROM ackline.attempt WHERE job = j.num AND h.token > 0
        ) e ON true
    ) l
) b WHERE bytes - size < %(max_bytes)b::bigint
ORDER BY at /*asc*/, num /*asc*/;

-- name: list_inactive
-- Inactive jobs of one state; terminal ones only if their retention ends after `now`.
SELECT num, id, kind, payload, priority, options, created, state, at, attempts, token, worker,
       started, finished, false, progress, result, bytes
FROM (
    SELECT l.*, sum(size) OVER (ORDER BY at /*asc*/, num /*asc*/ ROWS UNBOUNDED PRECEDING)::bigint
               AS bytes
    FROM (
        SELECT h.*, p.data AS progress,
               octet_length(h.payload) + coalesce(octet_length(h.options), 0)
               + coalesce(octet_length(p.data), 0) + coalesce(octet_length(h.result), 0)
               + coalesce(e.size, 0) AS size
        FROM (
            SELECT j.num, j.id, j.kind, j.payload, j.priority, j.options, j.created, r.state, r.at,
                   r.attempts, r.token, r.worker, r.started, r.finished, r.result
            FROM ackline.inactive r
            CROSS JOIN LATERAL (SELECT * FROM ackline.job WHERE num = r.job OFFSET 0) j
            WHERE r.queue = %(queue)b::int AND r.state = %(state)b::smallint
              AND (r.at, r.job) /*after*/ > (%(at)b::float8, %(after)b::bigint)
              AND (r.state < 4 OR r.at > %(now)b::float8)
              AND (%(kinds)b::bytea[] IS NULL OR j.kind = ANY (%(kinds)b::bytea[]))
              AND (%(created_after)b::float8 IS NULL OR j.created >= %(created_after)b::float8)
              AND (%(created_before)b::float8 IS NULL OR j.created < %(created_before)b::float8)
              AND (%(text)b::bytea IS NULL OR position(%(text)b::bytea IN j.payload) > 0)
              AND (%(tag)b::bytea IS NULL OR position(%(tag)b::bytea IN j.options) > 0)
            ORDER BY r.at /*asc*/, r.job /*asc*/ LIMIT %(limit)b::bigint
        ) h
        LEFT JOIN LATERAL (
            SELECT data FROM ackline.progress WHERE job = h.num AND token = h.token OFFSET 0
        ) p ON true
        LEFT JOIN LATERAL (
            SELECT sum(octet_length(failure))::bigint AS size
            FROM ackline.attempt WHERE job = h.num AND h.token > 0
        ) e ON true
    ) l
) b WHERE bytes - size < %(max_bytes)b::bigint
ORDER BY at /*asc*/, num /*asc*/;

-- name: list_leased
-- Leased jobs by number, because their deadlines change with each heartbeat.
SELECT num, id, kind, payload, priority, options, created, 2, deadline, attempts, token, worker,
       started, NULL::float8, cancel_requested, progress, NULL::bytea, bytes
FROM (
    SELECT l.*, sum(size) OVER (ORDER BY num /*asc*/ ROWS UNBOUNDED PRECEDING)::bigint AS bytes
    FROM (
        SELECT h.*, p.data AS progress,
               octet_length(h.payload) + coalesce(octet_length(h.options), 0)
               + coalesce(octet_length(p.data), 0) + coalesce(e.size, 0) AS size
        FROM (
            SELECT j.num, j.id, j.kind, j.payload, j.priority, j.options, j.created, o.deadline,
                   o.attempts, o.token, o.worker, o.started, o.cancel_requested
            FROM (
                SELECT u.job, l.deadline, u.attempts, l.token, l.worker, l.started,
                       u.job = ANY (l.cancel_requested) AS cancel_requested
                FROM ackline.lease l CROSS JOIN LATERAL unnest(l.jobs, l.attempts) u(job, attempts)
                WHERE l.queue = %(queue)b::int AND u.job /*after*/ > %(after)b::bigint
                -- Sorted before payloads are read, so that only those that are listed are read.
                ORDER BY u.job /*asc*/ OFFSET 0
            ) o
            CROSS JOIN LATERAL (SELECT * FROM ackline.job WHERE num = o.job OFFSET 0) j
            WHERE (%(kinds)b::bytea[] IS NULL OR j.kind = ANY (%(kinds)b::bytea[]))
              AND (%(created_after)b::float8 IS NULL OR j.created >= %(created_after)b::float8)
              AND (%(created_before)b::float8 IS NULL OR j.created < %(created_before)b::float8)
              AND (%(text)b::bytea IS NULL OR position(%(text)b::bytea IN j.payload) > 0)
              AND (%(tag)b::bytea IS NULL OR position(%(tag)b::bytea IN j.options) > 0)
            ORDER BY o.job /*asc*/ LIMIT %(limit)b::bigint
        ) h
        LEFT JOIN LATERAL (
            SELECT data FROM ackline.progress WHERE job = h.num AND token = h.token OFFSET 0
        ) p ON true
        LEFT JOIN LATERAL (
            SELECT sum(octet_length(failure))::bigint AS size
            FROM ackline.attempt WHERE job = h.num
        ) e ON true
    ) l
) b WHERE bytes - size < %(max_bytes)b::bigint
ORDER BY num /*asc*/;

-- name: workers
-- The workers of several queues, each with the index of its queue and how many jobs it has leased.
SELECT i.n, w.heartbeat, w.last_heartbeat, w.expires, coalesce((
    SELECT sum(cardinality(l.jobs)) FROM ackline.lease l
    WHERE l.queue = w.queue AND l.worker = w.id
), 0)::bigint
FROM unnest(%(tenants)b::bytea[], %(names)b::bytea[]) WITH ORDINALITY i(tenant, name, n)
JOIN ackline.queue q ON q.tenant = i.tenant AND q.name = i.name
JOIN ackline.worker w ON w.queue = q.num;

-- name: next_due
-- For several queues, in order: when the next scheduled or failing job is due, and when the next
-- lease ends.
SELECT least((SELECT at FROM ackline.inactive WHERE queue = q.num AND state = 0
              ORDER BY at, job LIMIT 1),
             (SELECT at FROM ackline.inactive WHERE queue = q.num AND state = 3
              ORDER BY at, job LIMIT 1)),
       (SELECT deadline FROM ackline.lease WHERE queue = q.num ORDER BY deadline LIMIT 1)
FROM unnest(%(tenants)b::bytea[], %(names)b::bytea[]) WITH ORDINALITY i(tenant, name, n)
LEFT JOIN ackline.queue q ON q.tenant = i.tenant AND q.name = i.name
ORDER BY i.n;

-- name: job_numbers
SELECT j.id, j.num FROM unnest(%(ids)b::bytea[]) i(id)
CROSS JOIN LATERAL (
    SELECT id, num FROM ackline.job WHERE queue = %(queue)b::int AND id = i.id OFFSET 0
) j;
