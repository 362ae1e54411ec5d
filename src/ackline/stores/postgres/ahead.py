"""When the next lease ends, without passing all that have ended.

While another session holds a snapshot open, leases that were settled cannot be removed, and who
looks for the first deadline of a queue passes each of them. So a process begins at the deadline
that it found first the last time. One before that can only be of another process, with a shorter
lease: it is seen by a look at all of them, as often as that is cheap.
"""

from __future__ import annotations

import math

EVERY, SHARE = 1.0, 50.0
"""Seconds between looks at all leases, and of how many parts of the time they may take one."""


class Ahead:
    """What one process knows of the leases of one queue."""

    def __init__(self) -> None:
        self.start = -math.inf
        """The deadline from which on to look."""
        self._looked_at = math.inf
        self._next_look = -math.inf

    def is_due(self, now: float) -> bool:
        """Whether to look at all of them; also when the clock was put back."""
        return not self._looked_at <= now < self._next_look

    def saw(self, first: float | None, now: float, cost: float) -> None:
        """A look at all of them took so many seconds, and found this deadline first."""
        self.start = now if first is None else first
        self._looked_at, self._next_look = now, now + max(EVERY, SHARE * cost)

    def lower(self, deadline: float) -> None:
        """A lease was made: do not begin behind it."""
        self.start = min(self.start, deadline)
