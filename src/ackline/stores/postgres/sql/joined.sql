-- Statements in a user's transaction.

-- name: savepoint
SAVEPOINT ackline_step;

-- name: release_savepoint
RELEASE SAVEPOINT ackline_step;

-- name: rollback_to_savepoint
ROLLBACK TO SAVEPOINT ackline_step;

-- name: database_identity
-- Which server, database and schema this is.
SELECT extract(epoch FROM pg_postmaster_start_time())::float8,
       (SELECT oid FROM pg_database WHERE datname = current_database())::bigint,
       to_regclass('ackline.job')::oid::bigint;

-- name: transaction_settings
-- Whether the transaction is read-only, whether it sees new commits, and its settings.
SELECT current_setting('transaction_read_only')::boolean,
       current_setting('transaction_isolation') = 'read committed',
       ARRAY(SELECT current_setting(s.name)::boolean
             FROM unnest(%(names)s::text[]) WITH ORDINALITY s(name, n) ORDER BY s.n);

-- name: notify_at_commit
-- Who will be waiting at the commit is not known yet, so all processes are notified.
SELECT pg_notify(%(channel)s, m.message) FROM unnest(%(messages)s::text[]) m(message);
