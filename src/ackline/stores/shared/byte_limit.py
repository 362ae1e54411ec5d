"""Limit an answer by its size in bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


class ByteLimit:
    """Ends an answer with the item that reaches `max_bytes`; None is no limit.

    A limit below one counts as one byte, so an answer always has at least one item.

    >>> byte_limit = ByteLimit(5)
    >>> list(byte_limit.limit(["abc", "defg", "h"], len)), byte_limit.reached
    (['abc', 'defg'], True)
    """

    def __init__(self, max_bytes: int | None) -> None:
        self.has_limit = max_bytes is not None
        """Whether there is a limit at all."""
        self._max_bytes = None if max_bytes is None else max(1, max_bytes)
        self._size = 0
        self.reached = False
        """Whether the limit was reached, so that there may be more."""

    @property
    def remaining(self) -> int | None:
        """How many bytes are left, at least one; None is no limit."""
        return None if self._max_bytes is None else max(1, self._max_bytes - self._size)

    def add(self, size: int) -> None:
        """Count an item of this size."""
        self._size += size
        self.reached = self._max_bytes is not None and self._size >= self._max_bytes

    def limit(self, items: Iterable[T], size: Callable[[T], int]) -> Iterator[T]:
        """The items up to the one that reaches the limit."""
        for item in items:
            self.add(size(item))
            yield item
            if self.reached:
                return
