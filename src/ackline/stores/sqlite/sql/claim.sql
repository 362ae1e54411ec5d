-- Leases.

-- name: next_times
-- The times of the first scheduled, the first failing and the first leased job.
-- With LIMIT, because min() would read the whole list.
SELECT (SELECT at FROM job_state WHERE list = ? ORDER BY at LIMIT 1),
       (SELECT at FROM job_state WHERE list = ? ORDER BY at LIMIT 1),
       (SELECT at FROM job_state WHERE list = ? ORDER BY at LIMIT 1);

-- name: ready_list_heads
-- The non-empty lists of queued jobs, one for each kind, each with its first job.
SELECT s.at, s.job, l.num, l.kind
FROM job_list l CROSS JOIN job_state s
  ON s.job = (SELECT job FROM job_state WHERE list = l.num ORDER BY at, job LIMIT 1)
WHERE l.queue = ? AND l.code = 1 AND l.count > 0;

-- name: read_list
-- The jobs of one list in order, read lazily.
SELECT s.at, s.job, j.id, j.kind, j.payload, j.priority, j.options, j.created, j.job_group,
       s.attempts, s.cancel_requested
FROM job_state s INDEXED BY job_state_list CROSS JOIN job j ON j.num = s.job
WHERE s.list = ? ORDER BY s.at, s.job;

-- name: lease
UPDATE job_state SET list = ?1, at = ?2, attempts = attempts + 1, token = ?3, worker = ?4,
                     started = ?5, progress = NULL
WHERE job IN (SELECT value FROM carray(?6));

-- name: due
-- The jobs of one list that are due.
SELECT s.at, s.job, j.id, j.kind, j.priority, s.attempts
FROM job_state s INDEXED BY job_state_list CROSS JOIN job j ON j.num = s.job
WHERE s.list = ? AND s.at <= ? ORDER BY s.at, s.job LIMIT ?;

-- name: set_list
UPDATE job_state SET list = ?2, at = ?3, rank = ?3 WHERE job = ?1;

-- name: set_list_many
-- Move jobs to another list, in the same order.
UPDATE job_state SET list = ? WHERE job IN (SELECT value FROM carray(?));

-- name: lapsed
-- Leased jobs past their deadline, earliest first, without payload, progress and result: many
-- large leased jobs may have lapsed, and expiring them needs none of that.
SELECT j.num, j.id, j.kind, x'', j.priority, j.options, j.created, s.list, s.at,
       s.attempts, s.token, s.worker, s.started, s.finished, s.cancel_requested, NULL, NULL
FROM job_state s INDEXED BY job_state_list CROSS JOIN job j ON j.num = s.job
WHERE s.list = ? AND s.at <= ? ORDER BY s.at, s.job LIMIT ?;

-- name: leases_of_worker
-- The jobs that one worker has leased, in the columns of `lapsed`.
SELECT j.num, j.id, j.kind, x'', j.priority, j.options, j.created, s.list, s.at,
       s.attempts, s.token, s.worker, s.started, s.finished, s.cancel_requested, NULL, NULL
FROM job_state s INDEXED BY job_state_list CROSS JOIN job j ON j.num = s.job
WHERE s.list = ? AND s.worker = ? ORDER BY s.job LIMIT ?;

-- name: extend
UPDATE job_state SET at = ? WHERE job IN (SELECT value FROM carray(?));

-- name: save_heartbeat
INSERT INTO worker (queue, id, heartbeat, last_heartbeat, expires) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (queue, id) DO UPDATE
SET heartbeat = excluded.heartbeat, last_heartbeat = excluded.last_heartbeat,
    expires = excluded.expires;

-- name: remove_worker
DELETE FROM worker WHERE queue = ? AND id = ?;
