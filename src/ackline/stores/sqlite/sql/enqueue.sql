-- Inserting jobs.

-- name: add_job
INSERT INTO job (num, queue, id, kind, job_group, priority, created, options, payload)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: undo_insert
-- Undo an insert without lookup that met an id that is already there.
DELETE FROM job WHERE num BETWEEN ? AND ?;

-- name: add_states
-- Queue the new jobs of one kind.
INSERT INTO job_state (job, list, at, rank)
SELECT num, ?3, ?4 - priority * ?5, ?4 - priority * ?5 FROM job WHERE num BETWEEN ?1 AND ?2;

-- name: add_state
INSERT INTO job_state (job, list, at, rank) VALUES (?, ?, ?, ?);

-- name: existing_jobs
-- CROSS JOIN fixes the plan: one index lookup for each id, no scan of the jobs.
SELECT j.id, j.num, j.kind, s.list, s.at
FROM carray(?2) x CROSS JOIN job j ON j.queue = ?1 AND j.id = x.value
CROSS JOIN job_state s ON s.job = j.num;

-- name: existing_job
-- As `existing_jobs`, for one id: carray cannot hold an id with a NUL character.
SELECT j.id, j.num, j.kind, s.list, s.at
FROM job j CROSS JOIN job_state s ON s.job = j.num WHERE j.queue = ?1 AND j.id = ?2;

-- name: result_of
SELECT data FROM result WHERE job = ?;
