-- Queues, their lines and their groups.

-- name: find_queue
-- With the last number of a job, and the last that a batch of the journal was given.
SELECT num, settings, last_token, (SELECT max(num) FROM job), (SELECT n FROM slot WHERE num = 0)
FROM queue WHERE tenant = ? AND name = ?;

-- name: add_queue
INSERT INTO queue (tenant, name, settings) VALUES (?, ?, ?) RETURNING num;

-- name: set_settings
UPDATE queue SET settings = ? WHERE num = ?;

-- name: set_last_token
UPDATE queue SET last_token = ? WHERE num = ?;

-- name: next_number
-- Take the next number of a counter.
UPDATE counter SET last = last + 1 WHERE name = ? RETURNING last;

-- name: add_slot
INSERT INTO slot (num, queue, code, grp, kind) VALUES (?, ?, ?, ?, ?);

-- name: find_slot
SELECT num FROM slot WHERE queue = ? AND code = ? AND grp = ? AND kind = ?;

-- name: drop_slot
DELETE FROM slot WHERE num = ? AND n = 0;

-- name: drop_empty_slots
-- Empty lines of queued jobs, a limited number at a time: a kind or group may never come again.
DELETE FROM slot WHERE num IN (
    SELECT num FROM slot WHERE queue = ? AND code IN (1, 7) AND n = 0 LIMIT ?
) RETURNING num;

-- name: count_slot
UPDATE slot SET n = n + ? WHERE num = ?;

-- name: ready_slots
-- The lines that a claim can draw from.
SELECT num, kind FROM slot WHERE queue = ? AND code = 1 AND n > 0;

-- name: parked_groups
-- The groups that hold jobs back.
SELECT DISTINCT grp FROM slot WHERE queue = ? AND code = 7;

-- name: live_count
SELECT sum(n) FROM slot WHERE queue = ? AND code IN (0, 1, 2, 3, 7);

-- name: enter_group
INSERT INTO grp (queue, name, running) VALUES (?, ?, ?)
ON CONFLICT (queue, name) DO UPDATE SET running = running + excluded.running;

-- name: leave_group
UPDATE grp SET running = running - ? WHERE queue = ? AND name = ?;

-- name: forget_group
DELETE FROM grp WHERE queue = ? AND name = ? AND running <= 0;

-- name: group_running
SELECT running FROM grp WHERE queue = ? AND name = ?;

-- name: parked_slots
-- The lines that a full group holds back, one for each kind.
SELECT num, kind FROM slot WHERE queue = ? AND code = 7 AND grp = ?;

-- name: parked_jobs
-- The best-ranked jobs of one line.
SELECT job FROM place WHERE slot = ? ORDER BY at, job LIMIT ?;

