-- Queues, their job lists and their groups.

-- name: find_queue
-- With the highest number of a job, and the last number of a journal batch.
SELECT num, settings, last_token, (SELECT max(num) FROM job),
       (SELECT count FROM job_list WHERE num = 0)
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

-- name: add_list
INSERT INTO job_list (num, queue, code, job_group, kind) VALUES (?, ?, ?, ?, ?);

-- name: find_list
SELECT num FROM job_list WHERE queue = ? AND code = ? AND job_group = ? AND kind = ?;

-- name: drop_list_if_empty
DELETE FROM job_list WHERE num = ? AND count = 0;

-- name: drop_empty_lists
-- Empty lists of queued jobs, a limited number at a time: a kind or group may never return.
DELETE FROM job_list WHERE num IN (
    SELECT num FROM job_list WHERE queue = ? AND code IN (1, 7) AND count = 0 LIMIT ?
) RETURNING num;

-- name: change_count
UPDATE job_list SET count = count + ? WHERE num = ?;

-- name: ready_lists
-- The non-empty lists of queued jobs, one for each kind.
SELECT num, kind FROM job_list WHERE queue = ? AND code = 1 AND count > 0;

-- name: parked_groups
-- The groups with parked jobs.
SELECT DISTINCT job_group FROM job_list WHERE queue = ? AND code = 7;

-- name: live_count
SELECT sum(count) FROM job_list WHERE queue = ? AND code IN (0, 1, 2, 3, 7);

-- name: add_running
INSERT INTO job_group (queue, name, running) VALUES (?, ?, ?)
ON CONFLICT (queue, name) DO UPDATE SET running = running + excluded.running;

-- name: subtract_running
UPDATE job_group SET running = running - ? WHERE queue = ? AND name = ?;

-- name: delete_group
DELETE FROM job_group WHERE queue = ? AND name = ? AND running <= 0;

-- name: group_running
SELECT running FROM job_group WHERE queue = ? AND name = ?;

-- name: parked_lists
-- The lists of a group's parked jobs, one for each kind.
SELECT num, kind FROM job_list WHERE queue = ? AND code = 7 AND job_group = ?;

-- name: parked_jobs
-- The best-ranked jobs of one list.
SELECT job FROM job_state WHERE list = ? ORDER BY at, job LIMIT ?;

