-- Queues, their kinds and their groups.

-- name: find_queue
-- A queue, if it exists, and the time.
SELECT q.num, q.version, q.settings,
       coalesce(%(now)b::float8, extract(epoch FROM clock_timestamp())::float8)
FROM (SELECT 1) one
LEFT JOIN ackline.queue q ON q.tenant = %(tenant)b AND q.name = %(name)b;

-- name: find_queue_and_token
-- The same, and a token for a new lease.
SELECT q.num, q.version, q.settings,
       coalesce(%(now)b::float8, extract(epoch FROM clock_timestamp())::float8),
       (SELECT base FROM ackline.epoch) * 2048 + nextval('ackline.token')
FROM (SELECT 1) one
LEFT JOIN ackline.queue q ON q.tenant = %(tenant)b AND q.name = %(name)b;

-- name: next_token
-- A token above a given one.
WITH raised AS (
    UPDATE ackline.epoch SET base = greatest(base, %(above)b::bigint / 2048 + 1) RETURNING base
)
SELECT base * 2048 + nextval('ackline.token') FROM raised;

-- name: more_tokens
-- `count` tokens, above those that this session got before.
SELECT (SELECT base FROM ackline.epoch) * 2048 + nextval('ackline.token')
FROM generate_series(1, %(count)b::bigint);

-- name: raise_epoch
-- Runs on every new connection: tokens must also grow in a restored copy, and a journal of another
-- server must sort before new entries.
UPDATE ackline.epoch e
SET base = greatest(e.base, moment.milliseconds), era = e.era + (moment.foreign_journal)::int
FROM (
    SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS milliseconds,
           coalesce((SELECT j.moment > pg_snapshot_xmax(pg_current_snapshot())
                     FROM ackline.journal j
                     WHERE j.era = (SELECT era FROM ackline.epoch)
                     ORDER BY j.era DESC, j.moment DESC LIMIT 1), false) AS foreign_journal
) moment
WHERE e.base < moment.milliseconds OR moment.foreign_journal;

-- name: queue_kinds
SELECT num, kind FROM ackline.queue_kind WHERE queue = %(queue)b::int;

-- name: add_queue
INSERT INTO ackline.queue (tenant, name, settings)
VALUES (%(tenant)b, %(name)b, %(settings)b) ON CONFLICT DO NOTHING;

-- name: add_kinds
WITH new AS (
    INSERT INTO ackline.queue_kind (queue, kind)
    SELECT %(queue)b::int, k.kind FROM unnest(%(kinds)b::bytea[]) k(kind)
    WHERE NOT EXISTS (
        SELECT FROM ackline.queue_kind l WHERE l.queue = %(queue)b::int AND l.kind = k.kind
    )
    ORDER BY k.kind
    ON CONFLICT DO NOTHING RETURNING num
)
UPDATE ackline.queue SET version = version + 1
WHERE num = %(queue)b::int AND EXISTS (SELECT FROM new);

-- name: lock_queue
SELECT settings FROM ackline.queue WHERE num = %(queue)b::int FOR UPDATE;

-- name: set_settings
UPDATE ackline.queue SET settings = %(settings)b, version = version + 1
WHERE num = %(queue)b::int;

-- name: queues
SELECT num, tenant, name, settings FROM ackline.queue
WHERE (%(tenant)b::bytea IS NULL OR tenant = %(tenant)b::bytea)
  AND (%(name)b::bytea IS NULL OR name = %(name)b::bytea)
ORDER BY tenant, name;

-- name: lock_groups
-- Lock groups in the order of their names, created if needed; returns how many jobs are leased.
INSERT INTO ackline.job_group AS g (queue, name, running)
SELECT %(queue)b::int, n.name, 0 FROM unnest(%(names)b::bytea[]) n(name) ORDER BY n.name
ON CONFLICT (queue, name) DO UPDATE SET running = g.running
RETURNING g.name, g.running;

-- name: lock_free_groups
-- The same without groups that another transaction has locked and may be about to delete: a group
-- is created only if none of its name is visible.
WITH visible AS MATERIALIZED (
    SELECT name FROM ackline.job_group
    WHERE queue = %(queue)b::int AND name = ANY (%(names)b::bytea[])
), locked AS MATERIALIZED (
    SELECT name, running FROM ackline.job_group
    WHERE queue = %(queue)b::int AND name = ANY (%(names)b::bytea[])
    FOR UPDATE SKIP LOCKED
), added AS (
    INSERT INTO ackline.job_group (queue, name, running)
    SELECT %(queue)b::int, n.name, 0 FROM unnest(%(names)b::bytea[]) n(name)
    WHERE n.name <> ALL (ARRAY(SELECT name FROM visible)) ORDER BY n.name
    ON CONFLICT DO NOTHING RETURNING name, running
)
SELECT name, running FROM locked UNION ALL SELECT name, running FROM added;

-- name: set_running
UPDATE ackline.job_group g SET running = greatest(0, g.running + c.change)
FROM unnest(%(names)b::bytea[], %(changes)b::bigint[]) c(name, change)
WHERE g.queue = %(queue)b::int AND g.name = c.name;

-- name: delete_empty_groups
DELETE FROM ackline.job_group
WHERE queue = %(queue)b::int AND name = ANY (%(names)b::bytea[]) AND running = 0;

-- name: park
INSERT INTO ackline.parked
    (queue, job_group, kind_id, rank, job, attempts, token, worker, started, act)
SELECT %(queue)b::int, p.job_group, p.kind_id, p.rank, p.job, p.attempts, nullif(p.token, 0),
       p.worker, nullif(p.started, '-infinity'), nullif(p.act, -1)
FROM unnest(%(groups)b::bytea[], %(kind_ids)b::bigint[], %(ranks)b::float8[], %(jobs)b::bigint[],
            %(attempts)b::bigint[], %(tokens)b::bigint[], %(workers)b::bytea[],
            %(starts)b::float8[], %(acts)b::bigint[])
     p(job_group, kind_id, rank, job, attempts, token, worker, started, act);

-- name: unpark
-- Make the first jobs of each kind of a group ready again.
WITH best AS MATERIALIZED (
    SELECT p.job FROM ackline.queue_kind l
    CROSS JOIN LATERAL (
        SELECT job FROM ackline.parked
        WHERE queue = %(queue)b::int AND job_group = %(group)b AND kind_id = l.num
        ORDER BY rank, job LIMIT %(limit)b::bigint FOR UPDATE
    ) p
    WHERE l.queue = %(queue)b::int
), deleted AS (
    DELETE FROM ackline.parked WHERE job = ANY (ARRAY(SELECT job FROM best))
    RETURNING kind_id, rank, job, attempts, token, worker, started, act
)
INSERT INTO ackline.ready (kind_id, lane, rank, job, attempts, token, worker, started, act)
SELECT kind_id, 20, rank, job, attempts, token, worker, started, act FROM deleted RETURNING job;

-- name: parked_groups
SELECT DISTINCT job_group FROM ackline.parked WHERE queue = %(queue)b::int;
