"""Several lines of jobs read as one."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from ackline.stores.sqlite.rows import Row

P = TypeVar("P", bound=tuple[float, ...])


def merged(
    heads: Sequence[tuple[P, int]],
    read: Callable[[int], Iterator[Row]],
    place: Callable[[Row], P],
) -> Iterator[Row]:
    """The rows of several lines in one order, given the first place and the slot of each line.

    A line is read only when it is next: there may be one for each of thousands of kinds, and
    SQLite gets slow with many open statements.
    """
    if len(heads) == 1:
        return read(heads[0][1])
    return _merge(heads, read, place)


def _merge(
    heads: Sequence[tuple[P, int]],
    read: Callable[[int], Iterator[Row]],
    place: Callable[[Row], P],
) -> Iterator[Row]:
    nothing: Iterator[Row] = iter(())
    lines: list[tuple[P, int, Row | None, Iterator[Row]]]
    lines = [(head, slot, None, nothing) for head, slot in heads]
    heapq.heapify(lines)
    while lines:
        _, slot, row, rows = lines[0]
        if row is None:
            rows = read(slot)
        else:
            yield row
        row = next(rows, None)
        if row is None:
            heapq.heappop(lines)
        else:
            heapq.heapreplace(lines, (place(row), slot, row, rows))
