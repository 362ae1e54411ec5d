-- The state of the server.

-- name: now
SELECT coalesce(%(now)b::float8, extract(epoch FROM clock_timestamp())::float8);

-- name: server_facts
SELECT current_setting('server_version'), (SELECT max(num) FROM ackline.migration),
       current_setting('server_encoding'), pg_is_in_recovery(),
       current_setting('synchronous_commit'), current_setting('fsync'),
       current_setting('full_page_writes'), current_setting('synchronous_standby_names'),
       (SELECT count(*) FROM pg_stat_replication),
       current_setting('autovacuum') = 'on' AND current_setting('track_counts') = 'on',
       pg_has_role('pg_read_all_stats', 'USAGE');

-- name: open_transactions
-- What has kept a snapshot open for longest, so that dead rows cannot be removed: sessions,
-- standbys with feedback, replication slots, prepared transactions. One that writes, in any
-- database, also makes readers of the journal wait.
SELECT h.owner, h.state, h.seconds, h.transactions, h.writes FROM (
    SELECT 'session ' || pid || coalesce(' of ' || usename, '')
               || coalesce(' (' || nullif(application_name, '') || ')', '') AS owner,
           coalesce(state, backend_type, 'state not visible') AS state,
           extract(epoch FROM clock_timestamp() - xact_start)::float8 AS seconds,
           greatest(age(backend_xmin), age(backend_xid))::bigint AS transactions,
           backend_xid IS NOT NULL AS writes
    FROM pg_stat_activity
    WHERE pid <> pg_backend_pid() AND NOT starts_with(coalesce(backend_type, ''), 'autovacuum')
      AND (backend_xid IS NOT NULL
           OR backend_xmin IS NOT NULL AND (datid IS NULL OR datname = current_database()))
    UNION ALL
    SELECT 'replication slot ' || slot_name, CASE WHEN active THEN 'active' ELSE 'unused' END,
           NULL, age(xmin), false
    FROM pg_replication_slots WHERE xmin IS NOT NULL
    UNION ALL
    SELECT 'prepared transaction ' || gid, 'prepared',
           extract(epoch FROM clock_timestamp() - prepared)::float8, age(transaction), true
    FROM pg_prepared_xacts
) h ORDER BY h.seconds DESC NULLS LAST, h.transactions DESC LIMIT 100;

-- name: tables
-- Tables with rows, size, age of the last vacuum, and whether they have settings of their own.
SELECT s.relname::text, s.n_live_tup, s.n_dead_tup, pg_total_relation_size(s.relid),
       extract(epoch FROM clock_timestamp() - greatest(s.last_vacuum, s.last_autovacuum))::float8,
       EXISTS (SELECT FROM unnest(c.reloptions) o WHERE starts_with(o, 'autovacuum')),
       EXISTS (SELECT FROM unnest(c.reloptions) o WHERE o = 'autovacuum_enabled=false')
FROM pg_stat_all_tables s JOIN pg_class c ON c.oid = s.relid
WHERE s.schemaname = %(schema)s
ORDER BY pg_total_relation_size(s.relid) DESC;
