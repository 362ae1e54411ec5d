"""Distributes work evenly among tasks."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from heapq import heapreplace
from typing import TypeVar

T = TypeVar("T", bound=Hashable)

ROWS_PER_REQUEST = 10
"""The cost of a request, in rows that could be read in the same time."""


def balance(sizes: Mapping[T, int], tasks: int) -> list[list[T]]:
    """The items in at most `tasks` groups with about the same number of rows.

    Items are assigned largest first, each to the group with the fewest rows.
    """
    loads = [(0, number) for number in range(min(tasks, len(sizes)))]
    groups: list[list[T]] = [[] for _ in loads]
    for item in sorted(sizes, key=sizes.__getitem__, reverse=True):
        load, number = loads[0]
        groups[number].append(item)
        heapreplace(loads, (load + sizes[item] + ROWS_PER_REQUEST, number))
    return groups
