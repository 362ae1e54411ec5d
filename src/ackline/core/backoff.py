"""Pauses between tries of what fails again and again."""

from __future__ import annotations


class ExponentialDelay:
    """Each pause is twice as long as the one before, up to the last.

    >>> pauses = Pauses(0.1, 0.3)
    >>> [pauses.next() for _ in range(3)]
    [0.1, 0.2, 0.3]
    >>> pauses.reset()
    >>> pauses.length
    0.1
    """

    def __init__(self, first: float, last: float) -> None:
        self._first = first
        self._last = last
        self.current = first
        """Seconds of the next pause."""

    def next(self) -> float:
        """How long to wait now; longer the next time."""
        pause = self.current
        self.increase()
        return pause

    def increase(self) -> None:
        """It failed again after a whole pause."""
        self.current = min(self._last, 2 * self.current)

    def reset(self) -> None:
        """It went well: begin with the shortest again."""
        self.current = self._first
