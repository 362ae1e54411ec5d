"""Jobs out of the store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ackline.stores.sqlite.lines import Lines
from ackline.stores.sqlite.queries import sql
from ackline.stores.sqlite.rows import numbers

_PARTS = ("drop_jobs", "drop_places", "drop_results", "drop_attempts")


def drop_jobs(lines: Lines, jobs: Sequence[tuple[int, int]]) -> None:
    """Delete jobs, given by number and line, with everything that belongs to them."""
    if not jobs:
        return
    for part in _PARTS:
        lines.tx.execute(sql(part), (numbers(num for num, _ in jobs),))
    for slot, count in Counter(slot for _, slot in jobs).items():
        lines.shift(slot, None, count)
