-- Transactions and sessions.

-- name: begin_write
BEGIN ISOLATION LEVEL READ COMMITTED;

-- name: begin_read
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;

-- name: commit
COMMIT;

-- name: rollback
ROLLBACK;

-- name: settings
-- Set for one transaction what lasting sessions set when they connect.
SELECT set_config(s.name, s.value, true)
FROM (SELECT unnest(%(names)s::text[]) AS name, unnest(%(values)s::text[]) AS value) s;

-- name: may_write
-- Whether this user may write and this is no standby. Checked first, because a refused write would
-- be an error in the server's log for each new connection.
SELECT NOT current_setting('transaction_read_only')::boolean
       AND has_table_privilege('ackline.epoch', 'UPDATE');

-- name: session_number
SELECT pg_backend_pid();
