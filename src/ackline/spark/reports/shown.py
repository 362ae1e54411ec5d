"""Which rows of a report's lists people are shown, and what is said of those left out."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

from ackline.spark.pipelines.forecast import TOO_LITTLE
from ackline.spark.reports.plots import moment

Row = dict[str, Any]

GATHERED = 1000
"""Rows of a list that a report has, for programs."""

MOST = 20
"""Rows of a list that people are shown."""

COUNTED = ("enqueued", "claimed", "completed", "retried", "failed", "cancelled", "stalled")
"""What makes a row of traffic worth a line."""

MOST_NAMES = 5
"""Names in a sentence."""


def with_traffic(rows: Sequence[Row]) -> list[Row]:
    """Without rows in which nothing would be seen, such as those of a job that was only edited."""
    return [row for row in rows if any(row[name] for name in COUNTED)]


def chosen(rows: Sequence[Row]) -> list[Row]:
    """The rows of traffic that are shown, in the same order: where jobs fail, then the busiest.

    A quiet queue in which everything fails matters more than a busy one without a failure, so
    half of the lines are for those where the largest share fails.
    """
    failing = [at for at, row in enumerate(rows) if row["failed"]]
    worst = sorted(failing, key=lambda at: -(rows[at]["failure_rate"] or 0.0))[: MOST // 2]
    # A dict, because a row comes once, at its first place.
    order = list(dict.fromkeys([*worst, *failing, *range(len(rows))]))
    return [rows[at] for at in sorted(order[:MOST])]


def left_out(rows: Sequence[Row]) -> str:
    """What is said below a list that is cut; empty if it is whole.

    >>> left_out([{}] * 21)
    'and 1 more: `ackline --json pipeline report` lists them'
    """
    if len(rows) <= MOST:
        return ""
    more = f"{len(rows) - MOST:,}" + (" or" if len(rows) >= GATHERED else "")
    return f"and {more} more: `ackline --json pipeline report` lists them"


def days_shown(first: datetime.date, last: datetime.date) -> str:
    """The days of a report; a single one once.

    >>> days_shown(datetime.date(2026, 11, 15), datetime.date(2026, 11, 15))
    '2026-11-15'
    """
    return str(first) if first == last else f"{first} to {last}"


def is_stale(last_at: datetime.datetime, now: datetime.datetime) -> bool:
    """Whether a lake has nothing of today, so that its last days are not the last ones."""
    return last_at.date() < now.date()


def freshness(
    last_at: datetime.datetime, read_at: datetime.datetime | None, now: datetime.datetime
) -> str:
    """How far a lake goes.

    >>> at = datetime.datetime(2026, 11, 15, 14, 2)
    >>> freshness(at, at + datetime.timedelta(minutes=1), at)
    'Last event 2026-11-15 14:02 UTC; last run 2026-11-15 14:03 UTC'
    >>> freshness(at, None, at + datetime.timedelta(days=3))
    'No events since 2026-11-15 14:02 UTC'
    """
    said = "No events since" if is_stale(last_at, now) else "Last event"
    run = "" if read_at is None else f"; last run {moment(read_at)} UTC"
    return f"{said} {moment(last_at)} UTC{run}"


def places_in_code(rows: Sequence[Row]) -> list[str]:
    """For each group of errors, how its path through the code ends; empty if its message tells.

    >>> alike = {"exception": "KeyError", "message": "'…'"}
    >>> ways = ("a.py:run > b.py:send", "a.py:run > b.py:fetch")
    >>> places_in_code([*({**alike, "way": way} for way in ways)])
    ['b.py:send', 'b.py:fetch']
    """
    return [_place_in_code(row, [one for one in rows if _said(one) == _said(row)]) for row in rows]


def _place_in_code(row: Row, alike: Sequence[Row]) -> str:
    """As few of the last functions as tell it apart from the others."""
    if len(alike) == 1:
        return ""
    paths = [one["way"].split(" > ") for one in alike]
    own = row["way"].split(" > ")
    for length in range(1, len(own)):
        if sum(path[-length:] == own[-length:] for path in paths) == 1:
            return " > ".join(own[-length:])
    return row["way"] or "path not known"


def _said(row: Row) -> tuple[str, str]:
    return row["exception"], row["message"]


def foreseen(rows: Sequence[Row]) -> list[Row]:
    """The forecasts of queues that were seen for long enough."""
    return [row for row in rows if row["basis"] != TOO_LITTLE]


def unforeseen(names: Sequence[str]) -> str:
    """What is said of queues without a forecast; empty if there are none.

    >>> unforeseen(["email", "images"])
    'No forecast yet, because seen for less than a day: email, images'
    """
    if not names:
        return ""
    more = f" and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else ""
    return (
        f"No forecast yet, because seen for less than a day: {', '.join(names[:MOST_NAMES])}{more}"
    )
