-- Looking at jobs, queues and workers.

-- name: look_up
SELECT j.num, j.id, j.kind, j.payload, j.priority, j.options, j.created, p.slot, p.at,
       p.attempts, p.token, p.worker, p.started, p.finished, p.cancel, p.progress, r.data
FROM job j CROSS JOIN place p ON p.job = j.num LEFT JOIN result r ON r.job = j.num
WHERE j.queue = ?1 AND j.id = ?2;

-- name: look_up_many
-- CROSS JOIN fixes the order: look each id up, do not scan the jobs.
SELECT j.num, j.id, j.kind, j.payload, j.priority, j.options, j.created, p.slot, p.at,
       p.attempts, p.token, p.worker, p.started, p.finished, p.cancel, p.progress, r.data
FROM carray(?2) x CROSS JOIN job j ON j.queue = ?1 AND j.id = x.value
CROSS JOIN place p ON p.job = j.num LEFT JOIN result r ON r.job = j.num;

-- name: list_line
-- One line in order, after (at, job); a parameter that is NULL excludes none.
SELECT j.num, j.id, j.kind, j.payload, j.priority, j.options, j.created, p.slot, p.at,
       p.attempts, p.token, p.worker, p.started, p.finished, p.cancel, p.progress, r.data
FROM place p INDEXED BY place_line CROSS JOIN job j ON j.num = p.job
LEFT JOIN result r ON r.job = p.job
WHERE p.slot = ?1 AND p.at /*behind*/ >= ?2
  AND (p.at /*behind*/ > ?2 OR p.job /*behind*/ > ?3)
  AND (?4 IS NULL OR j.created >= ?4) AND (?5 IS NULL OR j.created < ?5)
  AND (?6 IS NULL OR instr(j.payload, ?6) > 0)
ORDER BY p.at /*up*/, p.job /*up*/;

-- name: list_heads
-- Every line whose jobs are queued (by kind, and parked), each with its first job after (at, job).
SELECT p.at, p.job, s.num, s.kind
FROM slot s CROSS JOIN place p
  ON p.job = (SELECT job FROM place WHERE slot = s.num AND at /*behind*/ >= ?2
              AND (at /*behind*/ > ?2 OR job /*behind*/ > ?3)
              ORDER BY at /*up*/, job /*up*/ LIMIT 1)
WHERE s.queue = ?1 AND s.code IN (1, 7) AND s.n > 0;

-- name: list_leased
-- Leased jobs by age, because their deadlines move with each heartbeat.
SELECT j.num, j.id, j.kind, j.payload, j.priority, j.options, j.created, p.slot, p.at,
       p.attempts, p.token, p.worker, p.started, p.finished, p.cancel, p.progress, r.data
FROM place p INDEXED BY place_line CROSS JOIN job j ON j.num = p.job
LEFT JOIN result r ON r.job = p.job
WHERE p.slot = ?1 AND ?2 IS NOT NULL AND p.job /*behind*/ > ?3
  AND (?4 IS NULL OR j.created >= ?4) AND (?5 IS NULL OR j.created < ?5)
  AND (?6 IS NULL OR instr(j.payload, ?6) > 0)
ORDER BY p.job /*up*/;

-- name: queues
SELECT num, tenant, name, settings FROM queue
WHERE (?1 IS NULL OR tenant = ?1) AND (?2 IS NULL OR name = ?2) ORDER BY tenant, name;

-- name: counts
SELECT queue, code, sum(n) FROM slot WHERE queue = ? GROUP BY code;

-- name: all_counts
SELECT queue, code, sum(n) FROM slot GROUP BY queue, code;

-- name: workers
SELECT id, beat, seen, expires FROM worker WHERE queue = ? ORDER BY id;

-- name: holds
-- How many leases each worker holds.
SELECT worker, count(*) FROM place WHERE slot = ? GROUP BY worker;
