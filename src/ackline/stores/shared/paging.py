"""Lists of jobs page by page: by state, then in the order of their line."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec

from ackline.core.job import State
from ackline.stores.shared.byte_limit import ByteLimit
from ackline.stores.shared.record_encoding import STATE_CODES

T = TypeVar("T")

SortKey = tuple[int, float, int]
"""Where a job stands in a list: the code of its state, its place in the line, its number."""


def sort_key(state: State, at: float, number: int, newest_first: bool) -> SortKey:
    """The place by which a list is sorted; newest first, `at` and `number` are negated.

    A lease's deadline moves with each heartbeat, so leased jobs are listed by age instead.
    """
    at = 0.0 if state is State.PROCESSING else at
    return (STATE_CODES[state], -at, -number) if newest_first else (STATE_CODES[state], at, number)


def decode_page_cursor(cursor: str | None, newest_first: bool) -> SortKey | None:
    """Where the previous page ended; refuses a cursor of a list in the other order."""
    if not cursor:
        return None
    place: SortKey = msgspec.json.decode(cursor, type=SortKey)
    if (place[2] < 0) is not newest_first:
        raise msgspec.ValidationError("this is a cursor of a list in the other order")
    return place


def start_in_state(
    after: SortKey | None, state: State, newest_first: bool
) -> tuple[float, int] | None:
    """The `at` and number after which a page begins in a state's line, no longer negated.

    None if the page begins behind this line.
    """
    code = STATE_CODES[state]
    if after is not None and code < after[0]:
        return None
    begun = after is not None and after[0] == code
    _, at, number = after if after and begun else (code, -math.inf, -sys.maxsize)
    return (-at, -number) if newest_first else (at, number)


def finish_page(
    found: list[T], limit: int, ended_early: bool, place: Callable[[T], SortKey]
) -> tuple[list[T], str | None]:
    """A page and the cursor of the next one, from one job more than the limit, if there are.

    `ended_early` says that there may be more jobs all the same, because these are large.
    """
    shown = found[: max(limit, 0)]
    more = shown and (len(found) > limit or ended_early)
    return shown, msgspec.json.encode(place(shown[-1])).decode() if more else None


def read_page(
    jobs: Iterable[T],
    limit: int,
    max_bytes: int,
    size: Callable[[T], int],
    place: Callable[[T], SortKey],
) -> tuple[list[T], str | None]:
    """The same of jobs that are read one by one, as far as they are needed."""
    budget = ByteLimit(max_bytes)
    found = list(itertools.islice(budget.limit(jobs, size), max(limit, 0) + 1))
    return finish_page(found, limit, budget.reached, place)
