"""Shares work out to tasks, so that each has about as much to do."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from heapq import heapreplace
from typing import TypeVar

T = TypeVar("T", bound=Hashable)

ROWS_PER_REQUEST = 10
"""To ask a store for the first rows of an item takes about as long as reading so many."""


def balance(sizes: Mapping[T, int], tasks: int) -> list[list[T]]:
    """The items, with about how many rows each has, in at most so many groups of about equal size.

    The largest come first, and of equal ones the first: each goes to the group that has least.
    """
    loads = [(0, number) for number in range(min(tasks, len(sizes)))]
    groups: list[list[T]] = [[] for _ in loads]
    for item in sorted(sizes, key=sizes.__getitem__, reverse=True):
        load, number = loads[0]
        groups[number].append(item)
        heapreplace(loads, (load + sizes[item] + ROWS_PER_REQUEST, number))
    return groups
