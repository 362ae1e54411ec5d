-- What the server is, and how it fares.

-- name: facts
SELECT current_setting('server_version'), current_setting('synchronous_commit'),
       current_setting('fsync'), current_setting('full_page_writes'),
       current_setting('synchronous_standby_names') <> '', pg_is_in_recovery(),
       coalesce(%(now)b::float8, extract(epoch FROM clock_timestamp())::float8),
       coalesce((SELECT max(age(backend_xmin)) FROM pg_stat_activity), 0),
       coalesce((SELECT extract(epoch FROM max(clock_timestamp() - xact_start))
                 FROM pg_stat_activity WHERE backend_xmin IS NOT NULL
                   AND pid <> pg_backend_pid()), 0)::float8;

-- name: dead_rows
SELECT relname::text, n_live_tup, n_dead_tup FROM pg_stat_user_tables
WHERE schemaname = %(schema)s AND relname IN ('ready', 'lease', 'rest', 'tally', 'job')
ORDER BY relname;
