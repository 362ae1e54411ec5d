"""Which rows of a report's lists people are shown, and what is said of those left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ackline.spark.pipelines.forecast import TOO_LITTLE

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
