-- Queues, their lines and their groups.

-- name: begin
-- A queue, if it exists, and the time.
SELECT q.num, q.version, q.settings,
       coalesce(%(now)b::float8, extract(epoch FROM clock_timestamp())::float8)
FROM (SELECT 1) one
LEFT JOIN ackline.queue q ON q.tenant = %(tenant)b AND q.name = %(name)b;

-- name: begin_claim
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
-- `count` tokens, above those that this session was given before.
SELECT (SELECT base FROM ackline.epoch) * 2048 + nextval('ackline.token')
FROM generate_series(1, %(count)b::bigint);

-- name: raise_epoch
-- Sent on every new connection: after a copy was restored, tokens must still grow, and the journal
-- of another server must come before ours.
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

-- name: lines
SELECT num, kind FROM ackline.line WHERE queue = %(queue)b::int;

-- name: add_queue
INSERT INTO ackline.queue (tenant, name, settings)
VALUES (%(tenant)b, %(name)b, %(settings)b) ON CONFLICT DO NOTHING;

-- name: add_lines
WITH new AS (
    INSERT INTO ackline.line (queue, kind)
    SELECT %(queue)b::int, k.kind FROM unnest(%(kinds)b::bytea[]) k(kind)
    WHERE NOT EXISTS (SELECT FROM ackline.line l WHERE l.queue = %(queue)b::int AND l.kind = k.kind)
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

-- name: enter_groups
-- Lock groups, made if need be, in the order of their names; returns how many jobs run in each.
INSERT INTO ackline.grp AS g (queue, name, running)
SELECT %(queue)b::int, n.name, 0 FROM unnest(%(names)b::bytea[]) n(name) ORDER BY n.name
ON CONFLICT (queue, name) DO UPDATE SET running = g.running
RETURNING g.name, g.running;

-- name: try_groups
-- The same without groups that another transaction has locked and may be about to delete: a group
-- is made only if nobody can see one of its name.
WITH there AS MATERIALIZED (
    SELECT name FROM ackline.grp
    WHERE queue = %(queue)b::int AND name = ANY (%(names)b::bytea[])
), locked AS MATERIALIZED (
    SELECT name, running FROM ackline.grp
    WHERE queue = %(queue)b::int AND name = ANY (%(names)b::bytea[])
    FOR UPDATE SKIP LOCKED
), made AS (
    INSERT INTO ackline.grp (queue, name, running)
    SELECT %(queue)b::int, n.name, 0 FROM unnest(%(names)b::bytea[]) n(name)
    WHERE n.name <> ALL (ARRAY(SELECT name FROM there)) ORDER BY n.name
    ON CONFLICT DO NOTHING RETURNING name, running
)
SELECT name, running FROM locked UNION ALL SELECT name, running FROM made;

-- name: set_running
UPDATE ackline.grp g SET running = greatest(0, g.running + c.change)
FROM unnest(%(names)b::bytea[], %(changes)b::bigint[]) c(name, change)
WHERE g.queue = %(queue)b::int AND g.name = c.name;

-- name: forget_groups
DELETE FROM ackline.grp
WHERE queue = %(queue)b::int AND name = ANY (%(names)b::bytea[]) AND running = 0;

-- name: park
INSERT INTO ackline.parked
    (queue, grp, line, rank, job, attempts, token, worker, started, act)
SELECT %(queue)b::int, p.grp, p.line, p.rank, p.job, p.attempts, nullif(p.token, 0), p.worker,
       nullif(p.started, '-infinity'), nullif(p.act, -1)
FROM unnest(%(groups)b::bytea[], %(lines)b::bigint[], %(ranks)b::float8[], %(jobs)b::bigint[],
            %(attempts)b::bigint[], %(tokens)b::bigint[], %(workers)b::bytea[],
            %(starts)b::float8[], %(acts)b::bigint[])
     p(grp, line, rank, job, attempts, token, worker, started, act);

-- name: unpark
-- The best-ranked of each kind of a group go back in line.
WITH best AS MATERIALIZED (
    SELECT p.job FROM ackline.line l
    CROSS JOIN LATERAL (
        SELECT job FROM ackline.parked
        WHERE queue = %(queue)b::int AND grp = %(group)b AND line = l.num
        ORDER BY rank, job LIMIT %(room)b::bigint FOR UPDATE
    ) p
    WHERE l.queue = %(queue)b::int
), gone AS (
    DELETE FROM ackline.parked WHERE job = ANY (ARRAY(SELECT job FROM best))
    RETURNING line, rank, job, attempts, token, worker, started, act
)
INSERT INTO ackline.ready (line, lane, rank, job, attempts, token, worker, started, act)
SELECT line, 20, rank, job, attempts, token, worker, started, act FROM gone RETURNING job;

-- name: parked_groups
SELECT DISTINCT grp FROM ackline.parked WHERE queue = %(queue)b::int;
