-- Transitions.

-- name: standings
-- CROSS JOIN fixes the order: look each id up, and answer in the order of the ids.
SELECT j.num, j.id, j.kind, j.grp, j.priority, p.slot, p.at, p.rank, p.attempts, p.token,
       p.worker, p.started, p.finished, p.act, p.cancel, p.progress
FROM carray(?2) x CROSS JOIN job j ON j.queue = ?1 AND j.id = x.value
CROSS JOIN place p ON p.job = j.num;

-- name: standing
-- The same for one id, because carray cannot carry a NUL character.
SELECT j.num, j.id, j.kind, j.grp, j.priority, p.slot, p.at, p.rank, p.attempts, p.token,
       p.worker, p.started, p.finished, p.act, p.cancel, p.progress
FROM job j CROSS JOIN place p ON p.job = j.num WHERE j.queue = ?1 AND j.id = ?2;

-- name: finish
-- Many completed jobs that are kept for the same time.
UPDATE place SET slot = ?1, at = ?2, finished = ?3, act = ?4, cancel = 0
WHERE job IN (SELECT value FROM carray(?5));

-- name: set_standing
UPDATE place SET slot = ?2, at = ?3, rank = ?4, attempts = ?5, finished = ?6, act = ?7,
                 cancel = ?8, progress = ?9
WHERE job = ?1;

-- name: set_priority
UPDATE job SET priority = ? WHERE num = ?;

-- name: set_payload
UPDATE job SET payload = ? WHERE num = ?;

-- name: payload_of
SELECT payload FROM job WHERE num = ?;

-- name: options_of
-- Of the jobs that have any options.
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

-- name: forget_attempts
DELETE FROM attempt WHERE job = ? AND n <= ?;

-- name: attempts_of
SELECT failure FROM attempt WHERE job = ? ORDER BY n;

-- name: attempt_bytes
SELECT coalesce(sum(length(failure)), 0) FROM attempt WHERE job = ?;

-- name: attempts_of_many
SELECT job, failure FROM attempt WHERE job IN (SELECT value FROM carray(?)) ORDER BY job, n;

-- name: drop_jobs
DELETE FROM job WHERE num IN (SELECT value FROM carray(?));

-- name: drop_places
DELETE FROM place WHERE job IN (SELECT value FROM carray(?));

-- name: drop_results
DELETE FROM result WHERE job IN (SELECT value FROM carray(?));

-- name: drop_attempts
DELETE FROM attempt WHERE job IN (SELECT value FROM carray(?));
