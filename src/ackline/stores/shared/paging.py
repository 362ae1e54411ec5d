"""Pages of jobs: by state, then in the order of the state's list."""

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
"""The position of a job in pages: the code of its state, its `at` and its number."""


def sort_key(state: State, at: float, number: int, newest_first: bool) -> SortKey:
    """The key by which pages are sorted; newest first, `at` and `number` are negated.

    The deadline of a lease changes with each heartbeat, so leased jobs are sorted by age instead.
    """
    at = 0.0 if state is State.PROCESSING else at
    return (STATE_CODES[state], -at, -number) if newest_first else (STATE_CODES[state], at, number)


def decode_page_cursor(cursor: str | None, newest_first: bool) -> SortKey | None:
    """Where the previous page ended; raises for a cursor of the opposite order."""
    if not cursor:
        return None
    key: SortKey = msgspec.json.decode(cursor, type=SortKey)
    if (key[2] < 0) is not newest_first:
        raise msgspec.ValidationError("this cursor is of a list in the opposite order")
    return key


def start_in_state(
    after: SortKey | None, state: State, newest_first: bool
) -> tuple[float, int] | None:
    """The `at` and number after which a page starts in a state's list, not negated.

    None if the page starts after this list.
    """
    code = STATE_CODES[state]
    if after is not None and code < after[0]:
        return None
    in_this_state = after is not None and after[0] == code
    _, at, number = after if after and in_this_state else (code, -math.inf, -sys.maxsize)
    return (-at, -number) if newest_first else (at, number)


def finish_page(
    found: list[T], limit: int, ended_early: bool, sort_key_of: Callable[[T], SortKey]
) -> tuple[list[T], str | None]:
    """A page and the cursor of the next one, from up to one job more than the limit.

    `ended_early` says that there may be more jobs in any case, because these are large.
    """
    listed = found[: max(limit, 0)]
    has_more = listed and (len(found) > limit or ended_early)
    return listed, msgspec.json.encode(sort_key_of(listed[-1])).decode() if has_more else None


def read_page(
    jobs: Iterable[T],
    limit: int,
    max_bytes: int,
    size: Callable[[T], int],
    sort_key_of: Callable[[T], SortKey],
) -> tuple[list[T], str | None]:
    """A page and the cursor of the next one, from jobs that are read one by one as needed."""
    byte_limit = ByteLimit(max_bytes)
    found = list(itertools.islice(byte_limit.limit(jobs, size), max(limit, 0) + 1))
    return finish_page(found, limit, byte_limit.reached, sort_key_of)
