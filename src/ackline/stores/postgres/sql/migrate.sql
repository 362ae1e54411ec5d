-- Migrations.

-- name: schema_state
-- Whether the schema exists, how many relations it has, and the columns of `migration`.
SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = %(schema)s),
       (SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = %(schema)s),
       ARRAY(SELECT a.attname::text FROM pg_attribute a
             JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
             WHERE n.nspname = %(schema)s AND c.relname = 'migration'
               AND a.attnum > 0 AND NOT a.attisdropped);

-- name: last_migration
-- The newest migration, and the oldest schema version whose code can use the tables.
SELECT coalesce(max(num), 0), coalesce(max(compatible_from), 0) FROM ackline.migration;

-- name: set_lock_timeout
-- While a migration waits for a lock, all later transactions wait behind it.
SELECT set_config('lock_timeout', %(wait)s, true);

-- name: lock_migrations
-- One process at a time; the first number spells AckL.
SELECT pg_advisory_xact_lock(1097034572, hashtext(%(schema)s));

-- name: add_schema
CREATE SCHEMA ackline;

-- name: add_migration
INSERT INTO ackline.migration (num, name, compatible_from)
VALUES (%(number)s, %(name)s, %(compatible_from)s);
