-- Listeners and notifications.

-- name: add_listeners
INSERT INTO ackline.listener (queue_hash, topic, process, expires)
SELECT w.queue_hash, w.topic, %(process)b,
       clock_timestamp() + %(seconds)b::float8 * interval '1 second'
FROM unnest(%(queue_hashes)b::bytea[], %(topics)b::bigint[]) w(queue_hash, topic)
ORDER BY w.queue_hash, w.topic
ON CONFLICT (queue_hash, topic, process) DO UPDATE SET expires = excluded.expires;

-- name: remove_listeners
-- The rows are locked in the order in which they are inserted, so that there are no deadlocks.
WITH deleted AS MATERIALIZED (
    SELECT w.queue_hash, w.topic, w.process
    FROM unnest(%(queue_hashes)b::bytea[], %(topics)b::bigint[]) g(queue_hash, topic)
    JOIN ackline.listener w
        ON w.queue_hash = g.queue_hash AND w.topic = g.topic::smallint AND w.process = %(process)b
    ORDER BY w.queue_hash, w.topic FOR UPDATE OF w
)
DELETE FROM ackline.listener w USING deleted
WHERE w.queue_hash = deleted.queue_hash AND w.topic = deleted.topic AND w.process = deleted.process;

-- name: delete_expired_listeners
-- Rows of processes that died.
DELETE FROM ackline.listener WHERE expires < clock_timestamp() - interval '10 minutes';

-- name: notify
-- Runs after the commit: listeners that were registered before are notified, and later ones check
-- once. After `claim_jobs`, only if it has claimed any jobs.
SELECT pg_notify(%(channel)s, w.topic || ' ' || encode(w.queue_hash, 'hex')) FROM (
    SELECT DISTINCT w.queue_hash, w.topic
    FROM unnest(%(queue_hashes)b::bytea[], %(topics)b::bigint[]) g(queue_hash, topic)
    CROSS JOIN LATERAL (
        SELECT queue_hash, topic FROM ackline.listener
        WHERE queue_hash = g.queue_hash AND topic = g.topic::smallint
          AND expires > clock_timestamp()
        LIMIT 1
    ) w
    WHERE %(if_claimed)b::bigint = 0 OR current_setting('ackline_session.claimed', true) = '1'
) w;
