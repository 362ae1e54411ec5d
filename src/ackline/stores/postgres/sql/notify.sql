-- Who waits for news, and who is notified.

-- name: arm
INSERT INTO ackline.waiting (tag, topic, who, until)
SELECT w.tag, w.topic, %(who)b, clock_timestamp() + %(seconds)b::float8 * interval '1 second'
FROM unnest(%(tags)b::bytea[], %(topics)b::bigint[]) w(tag, topic) ORDER BY w.tag, w.topic
ON CONFLICT (tag, topic, who) DO UPDATE SET until = excluded.until;

-- name: disarm
-- The rows are locked in the order in which they are armed, so that nobody waits in a ring.
WITH gone AS MATERIALIZED (
    SELECT w.tag, w.topic, w.who
    FROM unnest(%(tags)b::bytea[], %(topics)b::bigint[]) g(tag, topic)
    JOIN ackline.waiting w
        ON w.tag = g.tag AND w.topic = g.topic::smallint AND w.who = %(who)b
    ORDER BY w.tag, w.topic FOR UPDATE OF w
)
DELETE FROM ackline.waiting w USING gone
WHERE w.tag = gone.tag AND w.topic = gone.topic AND w.who = gone.who;

-- name: forget_waiting
-- Processes that are gone without having removed their rows.
DELETE FROM ackline.waiting WHERE until < clock_timestamp() - interval '10 minutes';

-- name: notify
-- After the commit: listeners armed before it are notified; one armed later looks and sees it. After
-- a `take`, only if it took any jobs.
SELECT pg_notify(%(channel)s, w.topic || ' ' || encode(w.tag, 'hex')) FROM (
    SELECT DISTINCT w.tag, w.topic
    FROM unnest(%(tags)b::bytea[], %(topics)b::bigint[]) g(tag, topic)
    CROSS JOIN LATERAL (
        SELECT tag, topic FROM ackline.waiting
        WHERE tag = g.tag AND topic = g.topic::smallint AND until > clock_timestamp()
        LIMIT 1
    ) w
    WHERE %(if_took)b::bigint = 0 OR current_setting('ackline_session.took', true) = '1'
) w;
