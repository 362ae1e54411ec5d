"""Pauses between tries of what fails again and again."""

from __future__ import annotations


class Pauses:
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
        self.length = first
        """Seconds of the next pause."""

    def next(self) -> float:
        """How long to wait now; longer the next time."""
        pause = self.length
        self.lengthen()
        return pause

    def lengthen(self) -> None:
        """It failed again after a whole pause."""
        self.length = min(self._last, 2 * self.length)

    def reset(self) -> None:
        """It went well: begin with the shortest again."""
        self.length = self._first
