-- Transitions.

-- name: jobs_by_ids
-- CROSS JOIN fixes the plan: one index lookup for each id, rows in the order of the ids.
SELECT j.num, j.id, j.kind, j.job_group, j.priority, s.list, s.at, s.rank, s.attempts, s.token,
       s.worker, s.started, s.finished, s.act, s.cancel_requested, s.progress
FROM carray(?2) x CROSS JOIN job j ON j.queue = ?1 AND j.id = x.value
CROSS JOIN job_state s ON s.job = j.num;

-- name: job_by_id
-- As `jobs_by_ids`, for one id: carray cannot hold an id with a NUL character.
SELECT j.num, j.id, j.kind, j.job_group, j.priority, s.list, s.at, s.rank, s.attempts, s.token,
       s.worker, s.started, s.finished, s.act, s.cancel_requested, s.progress
FROM job j CROSS JOIN job_state s ON s.job = j.num WHERE j.queue = ?1 AND j.id = ?2;

-- name: complete_jobs
-- Complete many jobs with the same retention.
UPDATE job_state SET list = ?1, at = ?2, finished = ?3, act = ?4, cancel_requested = 0
WHERE job IN (SELECT value FROM carray(?5));

-- name: save_job_state
UPDATE job_state SET list = ?2, at = ?3, rank = ?4, attempts = ?5, finished = ?6, act = ?7,
                     cancel_requested = ?8, progress = ?9
WHERE job = ?1;

-- name: set_priority
UPDATE job SET priority = ? WHERE num = ?;

-- name: set_payload
UPDATE job SET payload = ? WHERE num = ?;

-- name: payload_of
SELECT payload FROM job WHERE num = ?;

-- name: options_of
-- The options of these jobs, without the jobs that have none.
SELECT num, options FROM job
WHERE num IN (SELECT value FROM carray(?1)) AND options IS NOT NULL;

-- name: set_queue
UPDATE job SET queue = ? WHERE num = ?;

-- name: add_result
INSERT INTO result (job, data) VALUES (?, ?)
ON CONFLICT (job) DO UPDATE SET data = excluded.data;

-- name: add_attempt
INSERT INTO attempt (job, n, failure)
SELECT ?1, coalesce(max(n), 0) + 1, ?2 FROM attempt WHERE job = ?1 RETURNING n;

-- name: drop_oldest_attempts
DELETE FROM attempt WHERE job = ? AND n <= ?;

-- name: attempts_of
SELECT failure FROM attempt WHERE job = ? ORDER BY n;

-- name: attempt_bytes
SELECT coalesce(sum(length(failure)), 0) FROM attempt WHERE job = ?;

-- name: attempts_of_many
SELECT job, failure FROM attempt WHERE job IN (SELECT value FROM carray(?)) ORDER BY job, n;

-- name: drop_jobs
DELETE FROM job WHERE num IN (SELECT value FROM carray(?));

-- name: drop_states
DELETE FROM job_state WHERE job IN (SELECT value FROM carray(?));

-- name: drop_results
DELETE FROM result WHERE job IN (SELECT value FROM carray(?));

-- name: drop_attempts
DELETE FROM attempt WHERE job IN (SELECT value FROM carray(?));
