-- The journal and the counts.

-- name: journal_moment
-- The position of a transaction in the journal; see the table `journal`.
greatest(pg_snapshot_xmax(pg_current_snapshot())::text::bigint,
         pg_current_xact_id()::text::bigint + 1)::text::xid8;

-- name: append_journal
-- One batch of the journal of a queue, and the changes of its counts. With `if_inserted`, only if
-- this transaction has inserted the jobs that were believed to be new.
WITH counted AS (
    INSERT INTO ackline.count_change (queue, states, events)
    SELECT %(queue)b::int, %(states)b::bigint[], %(size)b::bigint
    WHERE %(if_inserted)b::bigint = 0
       OR current_setting('ackline_transaction.inserted', true) = 'yes'
)
INSERT INTO ackline.journal (era, moment, queue, at, size, entries)
SELECT (SELECT era FROM ackline.epoch),
       /*journal_moment*/,
       %(queue)b::int,
       coalesce(%(at)b::float8, extract(epoch FROM clock_timestamp())::float8),
       %(size)b::int, %(entries)b
WHERE %(if_inserted)b::bigint = 0 OR current_setting('ackline_transaction.inserted', true) = 'yes';

-- name: read_queue_events
-- Batches from a position on, up to the oldest running transaction.
SELECT j.era, j.moment::text::bigint, j.num, j.queue, j.at, j.size, j.entries
FROM ackline.journal j
WHERE j.queue = %(queue)b::int
  AND (j.era, j.moment, j.num) >= (%(era)b::int, %(moment)b::bigint::text::xid8, %(num)b::bigint)
  AND (j.moment <= pg_snapshot_xmin(pg_current_snapshot())
       OR j.era < (SELECT era FROM ackline.epoch))
ORDER BY j.era, j.moment, j.num LIMIT %(limit)b::bigint;

-- name: read_all_events
SELECT j.era, j.moment::text::bigint, j.num, j.queue, j.at, j.size, j.entries,
       (SELECT q.tenant FROM ackline.queue q WHERE q.num = j.queue),
       (SELECT q.name FROM ackline.queue q WHERE q.num = j.queue)
FROM ackline.journal j
WHERE (j.era, j.moment, j.num) >= (%(era)b::int, %(moment)b::bigint::text::xid8, %(num)b::bigint)
  AND (j.moment <= pg_snapshot_xmin(pg_current_snapshot())
       OR j.era < (SELECT era FROM ackline.epoch))
ORDER BY j.era, j.moment, j.num LIMIT %(limit)b::bigint;

-- name: find_tenant_events
-- The batches of one tenant among the next ones of all queues, and the last one that was read.
WITH next AS MATERIALIZED (
    SELECT j.* FROM ackline.journal j
    WHERE (j.era, j.moment, j.num)
          >= (%(era)b::int, %(moment)b::bigint::text::xid8, %(num)b::bigint)
      AND (j.moment <= pg_snapshot_xmin(pg_current_snapshot())
           OR j.era < (SELECT era FROM ackline.epoch))
    ORDER BY j.era, j.moment, j.num LIMIT %(limit)b::bigint
), last_read AS (
    SELECT era, moment, num, (SELECT count(*) FROM next) AS read FROM next
    ORDER BY era DESC, moment DESC, num DESC LIMIT 1
)
SELECT s.read, s.era, s.moment::text::bigint, s.num,
       o.era, o.moment::text::bigint, o.num, o.queue, o.at, o.size, o.entries, o.tenant, o.name
FROM last_read s LEFT JOIN (
    SELECT n.*, q.tenant, q.name FROM next n JOIN ackline.queue q ON q.num = n.queue
    WHERE q.tenant = %(tenant)b
) o ON true
ORDER BY o.era, o.moment, o.num;

-- name: read_tenant_events
-- The next batches of one tenant, read queue by queue.
SELECT j.era, j.moment::text::bigint, j.num, j.queue, j.at, j.size, j.entries, n.tenant, n.name
FROM (
    SELECT k.era, k.moment, k.num, q.tenant, q.name
    FROM ackline.queue q CROSS JOIN LATERAL (
        SELECT j.era, j.moment, j.num FROM ackline.journal j
        WHERE j.queue = q.num
          AND (j.era, j.moment, j.num)
              >= (%(era)b::int, %(moment)b::bigint::text::xid8, %(num)b::bigint)
          AND (j.moment <= pg_snapshot_xmin(pg_current_snapshot())
               OR j.era < (SELECT era FROM ackline.epoch))
        ORDER BY j.era, j.moment, j.num LIMIT %(limit)b::bigint
    ) k
    WHERE q.tenant = %(tenant)b
    ORDER BY k.era, k.moment, k.num LIMIT %(limit)b::bigint
) n JOIN ackline.journal j ON (j.era, j.moment, j.num) = (n.era, n.moment, n.num)
ORDER BY j.era, j.moment, j.num;

-- name: journal_end
SELECT (SELECT era FROM ackline.epoch),
       pg_snapshot_xmin(pg_current_snapshot())::text::bigint;

-- name: oldest_batches
-- Only batches that every reader could have read.
SELECT j.era, j.moment::text::bigint, j.num, j.at, j.size
FROM ackline.journal j
WHERE j.queue = %(queue)b::int
  AND (j.moment <= pg_snapshot_xmin(pg_current_snapshot())
       OR j.era < (SELECT era FROM ackline.epoch))
ORDER BY j.era, j.moment, j.num LIMIT %(limit)b::bigint;

-- name: trim_journal
WITH last AS (
    SELECT %(queue)b::int AS queue, %(era)b::int AS era,
           %(moment)b::bigint::text::xid8 AS moment, %(num)b::bigint AS num
), recorded AS (
    INSERT INTO ackline.trimmed AS d (queue, era, moment, num, size)
    SELECT queue, era, moment, num, %(size)b::int FROM last
    ON CONFLICT (queue) DO UPDATE
    SET era = excluded.era, moment = excluded.moment, num = excluded.num, size = excluded.size
    WHERE (d.era, d.moment, d.num) < (excluded.era, excluded.moment, excluded.num)
), deleted AS (
    DELETE FROM ackline.journal j USING last l
    WHERE j.queue = l.queue AND (j.era, j.moment, j.num) <= (l.era, l.moment, l.num)
    RETURNING j.size
)
INSERT INTO ackline.count_change (queue, states, events)
SELECT %(queue)b::int, '{0,0,0,0,0,0,0}', -coalesce(sum(size), 0) FROM deleted;

-- name: last_trimmed
-- The last batch that was trimmed of a queue, of the queues of a tenant, or of all queues.
SELECT era, moment::text::bigint, num, size FROM ackline.trimmed
WHERE (%(queue)b::int IS NULL OR queue = %(queue)b::int)
  AND (%(tenant)b::bytea IS NULL
       OR queue IN (SELECT q.num FROM ackline.queue q WHERE q.tenant = %(tenant)b))
ORDER BY era DESC, moment DESC, num DESC LIMIT 1;

-- name: counts
-- The last column is the number of rows that were added up.
SELECT t.queue,
       sum(t.states[1])::bigint, sum(t.states[2])::bigint, sum(t.states[3])::bigint,
       sum(t.states[4])::bigint, sum(t.states[5])::bigint, sum(t.states[6])::bigint,
       sum(t.states[7])::bigint, sum(t.events)::bigint, count(*)
FROM ackline.count_change t WHERE t.queue = ANY (%(queues)b::bigint[]) GROUP BY t.queue;

-- name: compact_counts
-- Replace many changes by one. A concurrent transaction finds them deleted, and adds nothing.
WITH old AS (
    DELETE FROM ackline.count_change WHERE queue = %(queue)b::int RETURNING states, events
), sums AS (
    SELECT array[coalesce(sum(states[1]), 0), coalesce(sum(states[2]), 0),
                 coalesce(sum(states[3]), 0), coalesce(sum(states[4]), 0),
                 coalesce(sum(states[5]), 0), coalesce(sum(states[6]), 0),
                 coalesce(sum(states[7]), 0)]::bigint[] AS states,
           sum(events)::bigint AS events, count(*) AS n
    FROM old
)
INSERT INTO ackline.count_change (queue, states, events)
SELECT %(queue)b::int, states, events FROM sums WHERE n > 0;
