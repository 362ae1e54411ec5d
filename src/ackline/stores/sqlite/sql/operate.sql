-- Retention and dropping queues.

-- name: past_retention
-- The jobs of one terminal state whose retention has ended.
SELECT s.job, j.id, j.kind, s.attempts
FROM job_state s INDEXED BY job_state_list CROSS JOIN job j ON j.num = s.job
WHERE s.list = ? AND s.at <= ? ORDER BY s.at, s.job LIMIT ?;

-- name: delete_dead_workers
-- Workers that have been dead for long and have no leases.
DELETE FROM worker WHERE queue = ?1 AND expires < ?2
AND id NOT IN (SELECT worker FROM job_state WHERE list = ?3);

-- name: delete_workers
DELETE FROM worker WHERE queue = ?;

-- name: has_jobs
SELECT 1 FROM job_list WHERE queue = ? AND code < 8 AND count > 0 LIMIT 1;
