-- The schema itself.

-- name: has_schema
SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = %(schema)s);

-- name: has_migrations
SELECT EXISTS (
    SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %(schema)s AND c.relname = 'migration'
);

-- name: last_migration
SELECT coalesce(max(num), 0) FROM ackline.migration;

-- name: limit_waiting
SELECT set_config('lock_timeout', %(seconds)s, true);

-- name: lock_migrations
-- One process at a time; the first number spells AckL.
SELECT pg_advisory_xact_lock(1097034572, hashtext(%(schema)s));

-- name: add_schema
CREATE SCHEMA ackline;

-- name: add_migration
INSERT INTO ackline.migration (num, name) VALUES (%(number)s, %(name)s);
