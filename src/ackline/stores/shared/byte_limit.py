"""How many bytes an answer may have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


class ByteLimit:
    """Ends an answer with the item with which `max_bytes` is reached; None is no limit.

    Less than one byte is as good as one: an answer always gets on.

    >>> budget = Budget(5)
    >>> list(budget.within(["abc", "defg", "h"], len)), budget.reached
    (['abc', 'defg'], True)
    """

    def __init__(self, max_bytes: int | None) -> None:
        self.has_limit = max_bytes is not None
        """Whether there is a limit at all."""
        self._max_bytes = None if max_bytes is None else max(1, max_bytes)
        self._spent = 0
        self.reached = False
        """Whether the answer has ended early: there may be more."""

    @property
    def remaining(self) -> int | None:
        """How many bytes may follow; None is no limit."""
        return None if self._max_bytes is None else max(1, self._max_bytes - self._spent)

    def add(self, size: int) -> None:
        """Add an item of this size to the answer."""
        self._spent += size
        self.reached = self._max_bytes is not None and self._spent >= self._max_bytes

    def limit(self, items: Iterable[T], size: Callable[[T], int]) -> Iterator[T]:
        """The items up to the one with which the budget is reached."""
        for item in items:
            self.add(size(item))
            yield item
            if self.reached:
                return
