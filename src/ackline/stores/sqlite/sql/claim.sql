-- Leases.

-- name: heads
-- The times of the first scheduled, the first failing and the first leased job.
-- By LIMIT, because min() would read the whole line.
SELECT (SELECT at FROM place WHERE slot = ? ORDER BY at LIMIT 1),
       (SELECT at FROM place WHERE slot = ? ORDER BY at LIMIT 1),
       (SELECT at FROM place WHERE slot = ? ORDER BY at LIMIT 1);

-- name: ready_heads
-- The lines that a claim can draw from, each with its first job.
SELECT p.at, p.job, s.num, s.kind
FROM slot s CROSS JOIN place p
  ON p.job = (SELECT job FROM place WHERE slot = s.num ORDER BY at, job LIMIT 1)
WHERE s.queue = ? AND s.code = 1 AND s.n > 0;

-- name: line
-- The jobs of one line in order, read lazily.
SELECT p.at, p.job, j.id, j.kind, j.payload, j.priority, j.options, j.created, j.grp,
       p.attempts, p.cancel
FROM place p INDEXED BY place_line CROSS JOIN job j ON j.num = p.job
WHERE p.slot = ? ORDER BY p.at, p.job;

-- name: lease
UPDATE place SET slot = ?1, at = ?2, attempts = attempts + 1, token = ?3, worker = ?4,
                 started = ?5, progress = NULL
WHERE job IN (SELECT value FROM carray(?6));

-- name: due
-- The jobs of one line that are due.
SELECT p.at, p.job, j.id, j.kind, j.priority, p.attempts
FROM place p INDEXED BY place_line CROSS JOIN job j ON j.num = p.job
WHERE p.slot = ? AND p.at <= ? ORDER BY p.at, p.job LIMIT ?;

-- name: put
UPDATE place SET slot = ?2, at = ?3, rank = ?3 WHERE job = ?1;

-- name: put_many
-- To another line, in the same order.
UPDATE place SET slot = ? WHERE job IN (SELECT value FROM carray(?));

-- name: lapsed
-- Leased jobs past their deadline, the earliest first, without payload, progress and result: many
-- large jobs may have lapsed, and expiring them needs none of that.
SELECT j.num, j.id, j.kind, x'', j.priority, j.options, j.created, p.slot, p.at,
       p.attempts, p.token, p.worker, p.started, p.finished, p.cancel, NULL, NULL
FROM place p INDEXED BY place_line CROSS JOIN job j ON j.num = p.job
WHERE p.slot = ? AND p.at <= ? ORDER BY p.at, p.job LIMIT ?;

-- name: held
-- The jobs that one worker holds, as `lapsed` has them.
SELECT j.num, j.id, j.kind, x'', j.priority, j.options, j.created, p.slot, p.at,
       p.attempts, p.token, p.worker, p.started, p.finished, p.cancel, NULL, NULL
FROM place p INDEXED BY place_line CROSS JOIN job j ON j.num = p.job
WHERE p.slot = ? AND p.worker = ? ORDER BY p.job LIMIT ?;

-- name: extend
UPDATE place SET at = ? WHERE job IN (SELECT value FROM carray(?));

-- name: beat
INSERT INTO worker (queue, id, beat, seen, expires) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (queue, id) DO UPDATE
SET beat = excluded.beat, seen = excluded.seen, expires = excluded.expires;

-- name: goodbye
DELETE FROM worker WHERE queue = ? AND id = ?;
