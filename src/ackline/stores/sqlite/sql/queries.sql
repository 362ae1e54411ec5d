-- Reading jobs, queues and workers.

-- name: read_job
SELECT j.num, j.id, j.kind, j.payload, j.priority, j.options, j.created, s.list, s.at,
       s.attempts, s.token, s.worker, s.started, s.finished, s.cancel_requested, s.progress, r.data
FROM job j CROSS JOIN job_state s ON s.job = j.num LEFT JOIN result r ON r.job = j.num
WHERE j.queue = ?1 AND j.id = ?2;

-- name: read_jobs
-- CROSS JOIN fixes the plan: one index lookup for each id, no scan of the jobs.
SELECT j.num, j.id, j.kind, j.payload, j.priority, j.options, j.created, s.list, s.at,
       s.attempts, s.token, s.worker, s.started, s.finished, s.cancel_requested, s.progress, r.data
FROM carray(?2) x CROSS JOIN job j ON j.queue = ?1 AND j.id = x.value
CROSS JOIN job_state s ON s.job = j.num LEFT JOIN result r ON r.job = j.num;

-- name: list_jobs
-- One list in order, after (at, job); a parameter that is NULL excludes nothing.
SELECT j.num, j.id, j.kind, j.payload, j.priority, j.options, j.created, s.list, s.at,
       s.attempts, s.token, s.worker, s.started, s.finished, s.cancel_requested, s.progress, r.data
FROM job_state s INDEXED BY job_state_list CROSS JOIN job j ON j.num = s.job
LEFT JOIN result r ON r.job = s.job
WHERE s.list = ?1 AND s.at /*after*/ >= ?2
  AND (s.at /*after*/ > ?2 OR s.job /*after*/ > ?3)
  AND (?4 IS NULL OR j.created >= ?4) AND (?5 IS NULL OR j.created < ?5)
  AND (?6 IS NULL OR instr(j.payload, ?6) > 0)
ORDER BY s.at /*asc*/, s.job /*asc*/;

-- name: list_heads
-- Every list of queued jobs (by kind, and parked ones), each with its first job after (at, job).
SELECT s.at, s.job, l.num, l.kind
FROM job_list l CROSS JOIN job_state s
  ON s.job = (SELECT job FROM job_state WHERE list = l.num AND at /*after*/ >= ?2
              AND (at /*after*/ > ?2 OR job /*after*/ > ?3)
              ORDER BY at /*asc*/, job /*asc*/ LIMIT 1)
WHERE l.queue = ?1 AND l.code IN (1, 7) AND l.count > 0;

-- name: list_leased
-- Leased jobs by age, because their deadlines change with each heartbeat.
SELECT j.num, j.id, j.kind, j.payload, j.priority, j.options, j.created, s.list, s.at,
       s.attempts, s.token, s.worker, s.started, s.finished, s.cancel_requested, s.progress, r.data
FROM job_state s INDEXED BY job_state_list CROSS JOIN job j ON j.num = s.job
LEFT JOIN result r ON r.job = s.job
WHERE s.list = ?1 AND ?2 IS NOT NULL AND s.job /*after*/ > ?3
  AND (?4 IS NULL OR j.created >= ?4) AND (?5 IS NULL OR j.created < ?5)
  AND (?6 IS NULL OR instr(j.payload, ?6) > 0)
ORDER BY s.job /*asc*/;

-- name: queues
SELECT num, tenant, name, settings FROM queue
WHERE (?1 IS NULL OR tenant = ?1) AND (?2 IS NULL OR name = ?2) ORDER BY tenant, name;

-- name: counts
SELECT queue, code, sum(count) FROM job_list WHERE queue = ? GROUP BY code;

-- name: all_counts
SELECT queue, code, sum(count) FROM job_list GROUP BY queue, code;

-- name: workers
SELECT id, heartbeat, last_heartbeat, expires FROM worker WHERE queue = ? ORDER BY id;

-- name: leases_by_worker
-- How many jobs each worker has leased.
SELECT worker, count(*) FROM job_state WHERE list = ? GROUP BY worker;
