"""Tables as they are after months, filled in seconds."""

from typing import Any

import psycopg

from ackline.core.events import Act, Entry
from ackline.core.job import State
from ackline.stores.shared.journal_batches import pack_entries

WAITING, SCHEDULED, DONE = "waiting", "scheduled", "done"

DUE = 8000
"""How many scheduled jobs are due, and how many finished ones are past their retention."""

LEASES, LAPSED, HELD = 5000, 5, 5
"""The leases of other workers, how many of them have lapsed, and how many jobs each has."""

_FILL = """
WITH q AS (SELECT num FROM {0}.queue LIMIT 1)
INSERT INTO {0}.job (num, queue, id, kind, priority, created, payload)
SELECT nextval('{0}.job_num'), q.num, convert_to(%(name)s || ' ' || n, 'UTF8'), 'mail',
       CASE WHEN n %% 10 = 0 THEN n / 10 %% 10 ELSE 5 END, %(now)s, %(payload)s
FROM q, generate_series(1, %(count)s) n;

-- waiting
INSERT INTO {0}.ready (kind_id, lane, rank, job)
SELECT l.num, j.priority, j.created - 60 * j.priority + j.num * 1e-6, j.num
FROM {0}.queue_kind l, {0}.job j WHERE j.id LIKE 'waiting %%'::bytea AND l.kind = 'mail';

-- scheduled
INSERT INTO {0}.inactive (job, queue, state, at)
SELECT num, queue, 0, %(now)s + CASE WHEN row_number() OVER () <= %(due)s THEN -1 ELSE 3600 END
FROM {0}.job WHERE id LIKE 'scheduled %%'::bytea;

-- done
INSERT INTO {0}.inactive (job, queue, state, at, attempts, finished)
SELECT num, queue, 4 + num %% 3,
       %(now)s + CASE WHEN row_number() OVER () <= %(due)s THEN -1 ELSE 3600 END, 1, %(now)s
FROM {0}.job WHERE id LIKE 'done %%'::bytea;

-- leased
INSERT INTO {0}.lease
    (token, queue, worker, started, deadline, jobs, attempts, ranks, cancel_requested)
SELECT n, queue, convert_to('w' || n %% 50, 'UTF8'), %(now)s,
       %(now)s + CASE WHEN n <= %(lapsed)s THEN -1 ELSE 3600 END,
       array_agg(num), array_agg(1), array_agg(0.0), '{{}}'
FROM (SELECT num, queue, (row_number() OVER (ORDER BY num) - 1) / %(held)s + 1 AS n
      FROM {0}.job WHERE id LIKE 'leased %%'::bytea) j
GROUP BY n, queue;

-- journal
INSERT INTO {0}.journal (era, moment, queue, at, size, entries)
SELECT 0, '3', q.num + (n %% 10 > 0)::int, %(now)s, %(size)s, %(entries)s
FROM {0}.queue q, generate_series(1, %(count)s) n;

-- another queue
INSERT INTO {0}.queue (tenant, name, settings)
SELECT 'default', 'another', settings FROM {0}.queue;
"""


def fill(connection: psycopg.Connection[Any], schema: str, count: int) -> None:
    """Insert this many waiting, scheduled and finished jobs each, and some leases."""
    names = {WAITING: count, SCHEDULED: count, DONE: count, "leased": LEASES * HELD}
    [(now,)] = connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchall()
    entries = pack_entries(
        [Entry(Act.ENQUEUE, f"{n}", "mail", None, State.QUEUED) for n in range(10)]
    )
    values = {
        "now": now, "payload": b"{}", "due": DUE, "lapsed": LAPSED, "held": HELD,
        "size": 10, "entries": entries, "count": count,
    }  # fmt: skip
    jobs, *others = _FILL.format(f'"{schema}"').split(";\n")
    for name, number in names.items():
        connection.execute(jobs.encode(), values | {"name": name, "count": number})
    for statement in others:
        if statement.strip():
            connection.execute(statement.encode(), values)
