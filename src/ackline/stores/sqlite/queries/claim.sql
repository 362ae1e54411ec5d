-- Leases.

-- name: heads
-- When the first of the scheduled, the failing and the leased jobs has its time.
-- By LIMIT, for min() would read the whole line.
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
-- What waits in one line and has its time.
SELECT p.at, p.job, j.id, j.kind, j.priority, p.attempts
FROM place p INDEXED BY place_line CROSS JOIN job j ON j.num = p.job
WHERE p.slot = ? AND p.at <= ? ORDER BY p.at, p.job LIMIT ?;

-- name: put
UPDATE place SET slot = ?2, at = ?3, rank = ?3 WHERE job = ?1;

-- name: put_many
-- Another line, the same order in it.
UPDATE place SET slot = ? WHERE job IN (SELECT value FROM carray(?));

-- name: lapsed
-- Leases past their deadline, the longest ago first, without what the jobs carry: many large ones
-- may have lapsed, and to take them back none of it is needed.
SELECT j.num, j.id, j.kind, x'', j.priority, j.options, j.created, p.slot, p.at,
       p.attempts, p.token, p.worker, p.started, p.finished, p.cancel, NULL, NULL
FROM place p INDEXED BY place_line CROSS JOIN job j ON j.num = p.job
WHERE p.slot = ? AND p.at <= ? ORDER BY p.at, p.job LIMIT ?;

-- name: held
-- What one worker holds.
SELECT j.num, j.id, j.kind, j.payload, j.priority, j.options, j.created, p.slot, p.at,
       p.attempts, p.token, p.worker, p.started, p.finished, p.cancel, p.progress, NULL
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
