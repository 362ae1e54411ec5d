-- Claims.

-- name: next_jobs
-- The next jobs, locked: the first part of `take_jobs`, `take_jobs_within` and `claim_jobs`. Finds
-- nothing if the queue has changed since it was cached, or if jobs are due that must be promoted.
--
-- First, each lane is read from a position on, without locks, to find how many jobs to take of
-- each. Then these are locked, skipping jobs that others have locked. `take_jobs_within` has
-- `within_bytes` in the marked places, to stop after a number of bytes.
checks AS MATERIALIZED (
    SELECT EXISTS (SELECT FROM ackline.queue
                   WHERE num = %(queue)b::int AND version = %(version)b::bigint) AS same,
           EXISTS (SELECT FROM ackline.inactive
                   WHERE queue = %(queue)b::int AND state = 0 AND at <= m.now)
           OR EXISTS (SELECT FROM ackline.inactive
                      WHERE queue = %(queue)b::int AND state = 3 AND at <= m.now) AS due,
           %(promoted)b::bigint > 0 AS promoted,
           m.now
    FROM (SELECT coalesce(%(now)b::float8,
                          extract(epoch FROM clock_timestamp())::float8) AS now OFFSET 0) m
), scanned AS MATERIALIZED (
    SELECT b.kind_id, b.lane, r.rank, r.job
    FROM checks g
    CROSS JOIN unnest(%(kind_ids)b::bigint[], %(lanes)b::bigint[], %(ranks)b::float8[],
                      %(jobs)b::bigint[]) b(kind_id, lane, rank, job)
    CROSS JOIN LATERAL (
        SELECT rank, job FROM ackline.ready
        WHERE kind_id = b.kind_id::int AND lane = b.lane::smallint
          AND (rank, job) >= (b.rank, b.job)
        ORDER BY rank, job LIMIT %(limit)b::bigint
    ) r
    WHERE g.same AND (g.promoted OR NOT g.due)
    ORDER BY r.rank, r.job LIMIT %(limit)b::bigint
), per_lane AS MATERIALIZED (
    SELECT kind_id, lane, min(rank) AS rank, count(*) AS n FROM scanned /*within_bytes*/
    GROUP BY kind_id, lane
), locked AS MATERIALIZED (
    SELECT s.kind_id, s.lane, r.* FROM per_lane s CROSS JOIN LATERAL (
        SELECT ctid AS row_id, rank, job, attempts, token FROM ackline.ready
        WHERE kind_id = s.kind_id::int AND lane = s.lane::smallint AND rank >= s.rank
        ORDER BY rank, job LIMIT s.n FOR UPDATE SKIP LOCKED
    ) r
);

-- name: take_jobs
-- Take the next jobs out of `ready`. The first row says whether the queue is unchanged, whether
-- jobs are due, and how many jobs were read. Jobs are deleted by the ctid of rows that are already
-- locked and counted; a join could delete more.
WITH /*next_jobs*/, taken AS (
    DELETE FROM ackline.ready WHERE ctid = ANY (ARRAY(SELECT row_id FROM locked /*within_bytes*/))
    RETURNING kind_id, lane, rank, job, attempts, token, worker, started, act
)
SELECT g.same, g.due, (SELECT count(*) FROM scanned),
       t.rank, t.job, t.kind_id, t.lane, t.attempts, t.token,
       j.id, j.kind, j.job_group, j.priority, j.created, j.options, j.payload,
       t.worker, t.started, t.act
FROM checks g LEFT JOIN (
    taken t CROSS JOIN LATERAL (
        SELECT id, kind, job_group, priority, created, options, payload
        FROM ackline.job WHERE num = t.job OFFSET 0
    ) j
) ON true;

-- name: claim_jobs
-- A whole claim in one statement: the next jobs are leased, journaled and counted, if none of them
-- has options (a group is one) or a higher last token. If not, nothing is changed. All of it sees
-- one snapshot, so the journal entries may take their moment from it.
--
-- The entries are encoded as in `shared/journal_batches.py`; `head` and `tail` are the same in all
-- of them. A setting of the session tells `notify` whether any jobs were claimed.
WITH /*next_jobs*/, bodies AS MATERIALIZED (
    SELECT l.*, j.* FROM locked l CROSS JOIN LATERAL (
        SELECT id, kind, job_group, priority, created, options, payload
        FROM ackline.job WHERE num = l.job OFFSET 0
    ) j
), claimed AS MATERIALIZED (
    SELECT t.now, t.token, count(*) AS n,
           array_agg(b.job ORDER BY b.rank, b.job) AS jobs,
           array_agg(coalesce(b.attempts, 0) + 1::bigint ORDER BY b.rank, b.job) AS attempts,
           array_agg(b.rank ORDER BY b.rank, b.job) AS ranks,
           string_agg(%(head)b || ackline.msgpack_text(b.id) || ackline.msgpack_text(b.kind)
                      || %(states)b || ackline.msgpack_uint(coalesce(b.attempts, 0) + 1)
                      || '\xcf' || int8send(t.token) || %(tail)b,
                      '' ORDER BY b.rank, b.job) AS entries
    FROM (
        SELECT now, (SELECT base FROM ackline.epoch) * 2048 + nextval('ackline.token') AS token
        FROM checks OFFSET 0
    ) t CROSS JOIN bodies b
    GROUP BY t.now, t.token
    HAVING bool_and(b.options IS NULL AND coalesce(b.token, 0) < t.token)
), deleted AS (
    DELETE FROM ackline.ready
    WHERE ctid = ANY (ARRAY(SELECT b.row_id FROM bodies b WHERE EXISTS (SELECT FROM claimed)))
), leased AS (
    INSERT INTO ackline.lease
        (token, queue, worker, started, deadline, jobs, attempts, ranks, cancel_requested)
    SELECT token, %(queue)b::int, %(worker)b, now, now + %(seconds)b::float8, jobs, attempts, ranks,
           '{}'
    FROM claimed
), counted AS (
    INSERT INTO ackline.count_change (queue, states, events)
    SELECT %(queue)b::int, ARRAY[0, -n, n, 0, 0, 0, 0], n FROM claimed
), journaled AS (
    INSERT INTO ackline.journal (era, moment, queue, at, size, entries)
    SELECT (SELECT era FROM ackline.epoch), /*journal_moment*/, %(queue)b::int, now, n,
           '\xdd' || int4send(n::int) || entries
    FROM claimed
)
SELECT g.same, g.due, (SELECT count(*) FROM scanned), b.rank, b.job, b.kind_id, b.lane, b.attempts,
       b.token, b.id, b.kind, b.job_group, b.priority, b.created, NULL, b.payload, g.now, l.token,
       (SELECT set_config('ackline_session.claimed', (SELECT count(*) FROM claimed)::text, false))
FROM checks g LEFT JOIN (claimed l CROSS JOIN bodies b) ON true;

-- name: within_bytes
-- The first of some jobs, up to the one that reaches the limit of bytes.
SELECT * FROM (
    SELECT f.*, sum(octet_length(j.payload) + coalesce(octet_length(j.options), 0)) OVER (
        ORDER BY f.rank, f.job ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS before
    FROM /*jobs*/ f CROSS JOIN LATERAL (
        SELECT payload, options FROM ackline.job WHERE num = f.job OFFSET 0
    ) j
) g WHERE coalesce(before, 0) < %(max_bytes)b::bigint;

-- name: next_times
-- The times of the first scheduled, failing and leased job (see scan_position.py).
SELECT (SELECT at FROM ackline.inactive WHERE queue = %(queue)b::int AND state = 0
        ORDER BY at, job LIMIT 1),
       (SELECT at FROM ackline.inactive WHERE queue = %(queue)b::int AND state = 3
        ORDER BY at, job LIMIT 1),
       (SELECT deadline FROM ackline.lease
        WHERE queue = %(queue)b::int AND deadline >= %(start)b::float8
        ORDER BY deadline LIMIT 1);

-- name: promote
-- Due jobs, the earliest first, ranked by the time they were due. (`+ 0`: see apply.sql)
WITH due AS MATERIALIZED (
    SELECT d.job FROM (
        (SELECT job, at FROM ackline.inactive
         WHERE queue = %(queue)b::int AND state = 0 AND at <= %(now)b::float8
         ORDER BY at, job LIMIT %(limit)b::bigint)
        UNION ALL
        (SELECT job, at FROM ackline.inactive
         WHERE queue = %(queue)b::int AND state = 3 AND at <= %(now)b::float8
         ORDER BY at, job LIMIT %(limit)b::bigint)
    ) d ORDER BY d.at, d.job LIMIT %(limit)b::bigint
), locked AS MATERIALIZED (
    SELECT job FROM ackline.inactive
    WHERE job = ANY (ARRAY(SELECT job FROM due)) AND queue + 0 = %(queue)b::int
      AND state + 0 IN (0, 3) AND at + 0 <= %(now)b::float8
    FOR UPDATE SKIP LOCKED
), deleted AS (
    DELETE FROM ackline.inactive WHERE job = ANY (ARRAY(SELECT job FROM locked))
    RETURNING job, state, at, attempts, token, worker, started, act
), bodies AS MATERIALIZED (
    SELECT g.*, j.id, j.kind, j.priority, l.num AS kind_id FROM deleted g
    CROSS JOIN LATERAL (
        SELECT id, kind, priority FROM ackline.job WHERE num = g.job OFFSET 0
    ) j
    CROSS JOIN LATERAL (
        SELECT num FROM ackline.queue_kind WHERE queue = %(queue)b::int AND kind = j.kind OFFSET 0
    ) l
), queued AS (
    INSERT INTO ackline.ready (kind_id, lane, rank, job, attempts, token, worker, started, act)
    SELECT kind_id, 10 + priority, at - priority * %(ageing)b::float8, job, attempts, token, worker,
           started, act
    FROM bodies
)
SELECT at, job, id, kind, priority, state, attempts, kind_id FROM bodies;

-- name: lapsed
-- Leased jobs past their deadline, the earliest first; without payload, progress and result, which
-- may be large and are not needed to expire them.
SELECT o.job, j.id, j.kind, ''::bytea, j.priority, j.options, j.created, o.deadline, o.attempts,
       o.token, o.worker, o.started, o.cancel_requested, NULL::bytea
FROM (
    SELECT l.deadline, u.job, u.attempts, l.token, l.worker, l.started,
           u.job = ANY (l.cancel_requested) AS cancel_requested
    FROM ackline.lease l CROSS JOIN LATERAL unnest(l.jobs, l.attempts) u(job, attempts)
    WHERE l.queue = %(queue)b::int AND l.deadline <= %(now)b::float8
    ORDER BY l.deadline, u.job LIMIT %(limit)b::bigint
) o
CROSS JOIN LATERAL (
    SELECT id, kind, priority, options, created FROM ackline.job WHERE num = o.job OFFSET 0
) j
ORDER BY o.deadline, o.job;

-- name: leases_of_worker
-- The jobs leased by one worker, with the columns of `lapsed`.
SELECT o.job, j.id, j.kind, ''::bytea, j.priority, j.options, j.created, o.deadline, o.attempts,
       o.token, o.worker, o.started, o.cancel_requested, NULL::bytea
FROM (
    SELECT l.deadline, u.job, u.attempts, l.token, l.worker, l.started,
           u.job = ANY (l.cancel_requested) AS cancel_requested
    FROM ackline.lease l CROSS JOIN LATERAL unnest(l.jobs, l.attempts) u(job, attempts)
    WHERE l.queue = %(queue)b::int AND l.worker = %(worker)b
    ORDER BY u.job LIMIT %(limit)b::bigint
) o
CROSS JOIN LATERAL (
    SELECT id, kind, priority, options, created FROM ackline.job WHERE num = o.job OFFSET 0
) j
ORDER BY o.job;

-- name: save_heartbeat
INSERT INTO ackline.worker (queue, id, heartbeat, last_heartbeat, expires)
VALUES (%(queue)b::int, %(id)b, %(heartbeat)b, %(last_heartbeat)b::float8, %(expires)b::float8)
ON CONFLICT (queue, id) DO UPDATE
SET heartbeat = excluded.heartbeat, last_heartbeat = excluded.last_heartbeat,
    expires = excluded.expires;

-- name: remove_worker
DELETE FROM ackline.worker WHERE queue = %(queue)b::int AND id = %(id)b;
