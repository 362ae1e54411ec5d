-- Jobs into the store.

-- name: add_job
INSERT INTO job (num, queue, id, kind, grp, priority, created, options, payload)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: take_back_jobs
-- Undo a blind insert that met a known id.
DELETE FROM job WHERE num BETWEEN ? AND ?;

-- name: add_places
-- Let the new jobs of one kind stand in its line.
INSERT INTO place (job, slot, at, rank)
SELECT num, ?3, ?4 - priority * ?5, ?4 - priority * ?5 FROM job WHERE num BETWEEN ?1 AND ?2;

-- name: add_place
INSERT INTO place (job, slot, at, rank) VALUES (?, ?, ?, ?);

-- name: known_ids
-- CROSS JOIN fixes the order: look each id up, do not scan the jobs.
SELECT j.id, j.num, j.kind, p.slot, p.at
FROM carray(?2) x CROSS JOIN job j ON j.queue = ?1 AND j.id = x.value
CROSS JOIN place p ON p.job = j.num;

-- name: known_id
-- The same for one id, because carray cannot carry a NUL character.
SELECT j.id, j.num, j.kind, p.slot, p.at
FROM job j CROSS JOIN place p ON p.job = j.num WHERE j.queue = ?1 AND j.id = ?2;

-- name: result_of
SELECT data FROM result WHERE job = ?;
