"""Growing delays between retries."""

from __future__ import annotations


class ExponentialDelay:
    """Delays that double from the first up to the last.

    >>> delays = ExponentialDelay(0.1, 0.3)
    >>> [delays.next() for _ in range(3)]
    [0.1, 0.2, 0.3]
    >>> delays.reset()
    >>> delays.current
    0.1
    """

    def __init__(self, first: float, last: float) -> None:
        self._first = first
        self._last = last
        self.current = first
        """The next delay in seconds."""

    def next(self) -> float:
        """Return the delay for this retry, and double the next one."""
        delay = self.current
        self.increase()
        return delay

    def increase(self) -> None:
        """Double the next delay, up to the last."""
        self.current = min(self._last, 2 * self.current)

    def reset(self) -> None:
        """Start over with the shortest delay, after a success."""
        self.current = self._first
