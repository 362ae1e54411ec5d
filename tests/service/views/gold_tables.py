"""Gold tables as the pipeline writes them, with the documented columns."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import duckdb

TABLES = {
    "hourly": """
        SELECT DATE '{day}' AS day, TIMESTAMPTZ '{day} 00:00:00+00' + INTERVAL (h) HOUR AS hour,
               tenant, queue, 'send' AS kind, priority,
               (600 + 300 * sin(h / 3.8) + 40 * priority)::BIGINT AS enqueued,
               (590 + 290 * sin(h / 3.8) + 40 * priority)::BIGINT AS completed,
               (h % 5)::BIGINT AS failed, (h % 7 = 0)::BIGINT AS stalled,
               9.9 AS wait_p50, 9.9 AS wait_p99
        FROM range({hours}) AS hours(h),
             (VALUES ('default', 'email', 4), ('default', 'email', 5), ('default', 'images', 5),
                     ('acme', 'email', 5)) AS lines(tenant, queue, priority)""",
    # Not what can be made of `hourly`: quantiles cannot be put together.
    "latency": """
        SELECT DATE '{day}' AS day, TIMESTAMPTZ '{day} 00:00:00+00' + INTERVAL (h) HOUR AS hour,
               tenant, queue, kind, f * (0.02 + h / 900) AS wait_p50,
               f * (0.6 + 0.4 * sin(h / 2.0)) AS wait_p99,
               f * (0.11 + h / 2000) AS run_p50, f * (0.8 + 0.1 * cos(h)) AS run_p99,
               CASE WHEN h % 7 = 0 THEN f * 0.14 END AS recovery_p50,
               CASE WHEN h % 7 = 0 THEN f * (0.3 + h / 60) END AS recovery_max
        FROM range({hours}) AS hours(h),
             (VALUES ('default', NULL, NULL, 1.0),
                     ('default', 'email', NULL, 0.5), ('default', 'email', 'send', 0.5),
                     ('default', 'images', NULL, 2.0), ('default', 'images', 'send', 2.0),
                     ('acme', NULL, NULL, 9.0), ('acme', 'email', NULL, 9.0),
                     ('acme', 'email', 'send', 9.0)) AS levels(tenant, queue, kind, f)""",
    "errors": """
        SELECT DATE '{day}' AS day, tenant, queue, 'send' AS kind, fingerprint, exception, message,
               jobs, TIMESTAMPTZ '{day} 03:00:00+00' AS first_at,
               TIMESTAMPTZ '{day} 09:12:00+00' AS last_at,
               [{{'at': TIMESTAMPTZ '{day} 09:12:00+00', 'id': 'mail-7', 'message': said,
                  'traceback': ''}}] AS examples
        FROM (VALUES
            ('default', 'email', 'f1', 'ConnectionError', 'smtp.example.com:# refused',
             'smtp.example.com:587 refused', 31::BIGINT),
            ('default', 'images', 'f2', 'OSError', 'no space left on ''…''',
             'no space left on ''/data''', 4::BIGINT),
            ('acme', 'email', 'f3', 'KeyError', 'secret of acme', 'secret of acme', 9::BIGINT)
        ) AS found(tenant, queue, fingerprint, exception, message, said, jobs)""",
    "slo": """
        SELECT DATE '{day}' AS day, tenant, queue, objective_seconds, 0.99 AS target, deliveries,
               attained, attained >= 0.99 AS kept
        FROM (VALUES ('default', 'email', 5.0, 26000::BIGINT, 0.9991),
                     ('default', 'images', 60.0, 900::BIGINT, 0.962),
                     ('acme', 'email', 5.0, 9::BIGINT, 1.0)
        ) AS found(tenant, queue, objective_seconds, deliveries, attained)""",
    "workers": """
        SELECT DATE '{day}' AS day, tenant, queue, worker, deliveries, deliveries - 40 AS completed,
               38::BIGINT AS errors, stalled, 0::BIGINT AS given_back,
               TIMESTAMPTZ '{day} 09:12:00+00' AS last_at,
               1 - stalled / deliveries AS reliability
        FROM (VALUES ('default', 'email', 'web-1-2210', 13000::BIGINT, 2::BIGINT),
                     ('default', 'images', 'gpu-1-4180', 900::BIGINT, 7::BIGINT),
                     ('acme', 'email', 'acme-1', 9::BIGINT, 0::BIGINT)
        ) AS found(tenant, queue, worker, deliveries, stalled)""",
}


def make_gold(lake: Path, days: int = 7, hours: int = 24, read_at: float | None = None) -> None:
    """The last days including today, with this many hours each (default: as of 2 minutes ago)."""
    now = datetime.datetime.now(datetime.UTC)
    today = now.date()
    lake.mkdir()
    mark = {"schema": 3, "read_at": read_at or now.timestamp() - 125}
    (lake / "lake.json").write_text(json.dumps(mark))
    with duckdb.connect() as connection:
        for name, select in TABLES.items():
            (lake / "gold" / name).mkdir(parents=True)
            for back in range(days):
                day = (today - datetime.timedelta(days=back)).isoformat()
                file = lake / "gold" / name / f"{day}.parquet"
                connection.execute(
                    f"COPY ({select.format(day=day, hours=hours)}) TO '{file}' (FORMAT parquet)"
                )
