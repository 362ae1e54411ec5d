-- Statistics of a lake for the dashboard. Each statement has the files of one gold table as $files,
-- the tenant as $tenant, the queues as $queues and the kinds as $kinds (NULL is all).

-- name: hours
SELECT epoch(hour) AS at,
       sum(enqueued)::BIGINT AS enqueued, sum(completed)::BIGINT AS completed,
       sum(failed)::BIGINT AS failed, sum(stalled)::BIGINT AS stalled
FROM read_parquet($files, union_by_name = true)
WHERE tenant = $tenant AND ($queues IS NULL OR list_contains($queues, queue))
  AND ($kinds IS NULL OR list_contains($kinds, kind))
GROUP BY hour ORDER BY hour;

-- name: latency
-- Of the queue $queue and the kind $kind; NULL selects the row of all of them together.
SELECT epoch(hour) AS at, wait_p50, wait_p99, run_p50, run_p99, recovery_p50, recovery_max
FROM read_parquet($files, union_by_name = true)
WHERE tenant = $tenant AND queue IS NOT DISTINCT FROM $queue AND kind IS NOT DISTINCT FROM $kind;

-- name: errors
-- `message` is without the parts that differ; the `examples` have whole messages.
SELECT queue, kind, fingerprint, any_value(exception) AS exception, any_value(message) AS message,
       flatten(list(list_transform(examples, lambda one: one.message))) AS messages,
       sum(jobs)::BIGINT AS jobs, epoch(min(first_at)) AS first_at, epoch(max(last_at)) AS last_at,
       arg_max(examples[1].id, last_at) AS example
FROM read_parquet($files, union_by_name = true)
WHERE tenant = $tenant AND ($queues IS NULL OR list_contains($queues, queue))
  AND ($kinds IS NULL OR list_contains($kinds, kind))
GROUP BY queue, kind, fingerprint ORDER BY jobs DESC, last_at DESC LIMIT 20;

-- name: objectives
SELECT queue, any_value(objective_seconds) AS objective, any_value(target) AS target,
       sum(deliveries)::BIGINT AS deliveries,
       sum(attained * deliveries) / nullif(sum(deliveries), 0) AS attained
FROM read_parquet($files, union_by_name = true)
WHERE tenant = $tenant AND ($queues IS NULL OR list_contains($queues, queue)) AND $kinds IS NULL
GROUP BY queue ORDER BY attained NULLS LAST, queue;

-- name: workers
-- One row per worker, over all its queues.
SELECT worker, string_agg(DISTINCT queue, ', ' ORDER BY queue) AS queue,
       sum(deliveries)::BIGINT AS deliveries, sum(completed)::BIGINT AS completed,
       sum(errors)::BIGINT AS errors, sum(stalled)::BIGINT AS stalled,
       1 - sum(stalled) / nullif(sum(deliveries), 0) AS reliability, epoch(max(last_at)) AS last_at
FROM read_parquet($files, union_by_name = true)
WHERE tenant = $tenant AND ($queues IS NULL OR list_contains($queues, queue)) AND $kinds IS NULL
GROUP BY worker ORDER BY reliability, deliveries DESC LIMIT 20;
