-- Retention and workers.

-- name: past_retention
-- Terminal jobs of one state past their retention, locked.
SELECT r.job, j.id, j.kind, r.attempts
FROM (
    SELECT job, at, attempts FROM ackline.inactive
    WHERE queue = %(queue)b::int AND state = %(state)b::smallint AND at <= %(now)b::float8
    ORDER BY at, job LIMIT %(limit)b::bigint FOR UPDATE SKIP LOCKED
) r
CROSS JOIN LATERAL (SELECT id, kind FROM ackline.job WHERE num = r.job OFFSET 0) j
ORDER BY r.at, r.job;

-- name: delete_dead_workers
-- Workers that died long ago and have no leases.
DELETE FROM ackline.worker w WHERE w.queue = %(queue)b::int AND w.expires < %(before)b::float8
AND NOT EXISTS (SELECT FROM ackline.lease l WHERE l.queue = w.queue AND l.worker = w.id);

-- name: delete_workers
DELETE FROM ackline.worker WHERE queue = %(queue)b::int;
