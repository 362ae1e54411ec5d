"""Selects the rows of a report to show, and describes those left out."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

from ackline.spark.reports.charts import format_time
from ackline.spark.transforms.forecast import TOO_LITTLE_DATA

Row = dict[str, Any]

MAX_ROWS = 1000
"""Rows of a list in the JSON output."""

SHOWN_ROWS = 20
"""Rows of a list on the page and in the terminal."""

TRAFFIC_COUNTS = ("enqueued", "claimed", "completed", "retried", "failed", "cancelled", "stalled")
"""Counts of which a row must have at least one to be shown."""

SHOWN_NAMES = 5
"""Names that are listed in a sentence."""


def with_traffic(rows: Sequence[Row]) -> list[Row]:
    """Rows with any traffic: not those of a job that was only edited, for example."""
    return [row for row in rows if any(row[name] for name in TRAFFIC_COUNTS)]


def select_traffic(rows: Sequence[Row]) -> list[Row]:
    """The rows of traffic that are shown, in the same order: where jobs fail, then the busiest.

    Half of the lines are for the rows with the highest failure rates, because a quiet queue in
    which everything fails matters more than a busy one without failures.
    """
    failing = [at for at, row in enumerate(rows) if row["failed"]]
    worst = sorted(failing, key=lambda at: -(rows[at]["failure_rate"] or 0.0))[: SHOWN_ROWS // 2]
    # A dict, so that each row appears once.
    order = list(dict.fromkeys([*worst, *failing, *range(len(rows))]))
    return [rows[at] for at in sorted(order[:SHOWN_ROWS])]


def hidden_rows_note(rows: Sequence[Row]) -> str:
    """The note below a list that was cut; empty if it is complete.

    >>> hidden_rows_note([{}] * 21)
    'and 1 more: `ackline --json pipeline report` lists them'
    """
    if len(rows) <= SHOWN_ROWS:
        return ""
    more = f"{len(rows) - SHOWN_ROWS:,}" + (" or" if len(rows) >= MAX_ROWS else "")
    return f"and {more} more: `ackline --json pipeline report` lists them"


def format_days(first: datetime.date, last: datetime.date) -> str:
    """The days of a report; a single one once.

    >>> format_days(datetime.date(2026, 11, 15), datetime.date(2026, 11, 15))
    '2026-11-15'
    """
    return str(first) if first == last else f"{first} to {last}"


def is_stale(last_at: datetime.datetime, now: datetime.datetime) -> bool:
    """Whether a lake has no events of today."""
    return last_at.date() < now.date()


def freshness(
    last_at: datetime.datetime, read_at: datetime.datetime | None, now: datetime.datetime
) -> str:
    """When a lake had its last event and its last run.

    >>> at = datetime.datetime(2026, 11, 15, 14, 2)
    >>> freshness(at, at + datetime.timedelta(minutes=1), at)
    'Last event 2026-11-15 14:02 UTC; last run 2026-11-15 14:03 UTC'
    >>> freshness(at, None, at + datetime.timedelta(days=3))
    'No events since 2026-11-15 14:02 UTC'
    """
    text = "No events since" if is_stale(last_at, now) else "Last event"
    run = "" if read_at is None else f"; last run {format_time(read_at)} UTC"
    return f"{text} {format_time(last_at)} UTC{run}"


def distinguishing_paths(rows: Sequence[Row]) -> list[str]:
    """For each group of errors, how its call path ends; empty if its message is unique.

    >>> alike = {"exception": "KeyError", "message": "'…'"}
    >>> ways = ("a.py:run > b.py:send", "a.py:run > b.py:fetch")
    >>> distinguishing_paths([*({**alike, "way": way} for way in ways)])
    ['b.py:send', 'b.py:fetch']
    """
    return [
        _distinguishing_path(row, [one for one in rows if _error_text(one) == _error_text(row)])
        for row in rows
    ]


def _distinguishing_path(row: Row, alike: Sequence[Row]) -> str:
    """The shortest end of its call path that no other has."""
    if len(alike) == 1:
        return ""
    paths = [one["way"].split(" > ") for one in alike]
    own = row["way"].split(" > ")
    for length in range(1, len(own)):
        if sum(path[-length:] == own[-length:] for path in paths) == 1:
            return " > ".join(own[-length:])
    return row["way"] or "path unknown"


def _error_text(row: Row) -> tuple[str, str]:
    return row["exception"], row["message"]


def with_forecast(rows: Sequence[Row]) -> list[Row]:
    """The forecasts of queues with enough data."""
    return [row for row in rows if row["basis"] != TOO_LITTLE_DATA]


def no_forecast_note(names: Sequence[str]) -> str:
    """The note about queues without a forecast; empty if there are none.

    >>> no_forecast_note(["email", "images"])
    'No forecast yet, with less than a day of data: email, images'
    """
    if not names:
        return ""
    more = f" and {len(names) - SHOWN_NAMES:,} more" if len(names) > SHOWN_NAMES else ""
    return f"No forecast yet, with less than a day of data: {', '.join(names[:SHOWN_NAMES])}{more}"
