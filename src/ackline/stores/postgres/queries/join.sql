-- A caller's transaction.

-- name: savepoint
SAVEPOINT ackline_step;

-- name: keep_step
RELEASE SAVEPOINT ackline_step;

-- name: undo_step
ROLLBACK TO SAVEPOINT ackline_step;

-- name: whereabouts
-- Which server, database and schema this is.
SELECT extract(epoch FROM pg_postmaster_start_time())::float8,
       (SELECT oid FROM pg_database WHERE datname = current_database())::bigint,
       to_regclass('ackline.job')::oid::bigint;

-- name: manners
-- What the transaction may do and sees, and the settings of its session.
SELECT current_setting('transaction_read_only')::boolean,
       current_setting('transaction_isolation') = 'read committed',
       ARRAY(SELECT current_setting(s.name)::boolean
             FROM unnest(%(names)s::text[]) WITH ORDINALITY s(name, n) ORDER BY s.n);

-- name: notify_at_commit
-- Who waits by then cannot be known now, so all are told.
SELECT pg_notify(%(channel)s, m.message) FROM unnest(%(messages)s::text[]) m(message);
