"""When the next lease ends, without reading the rows of all leases that have ended.

While another session holds a snapshot open, the rows of settled leases cannot be removed, and a
search for the first deadline of a queue passes each of them. So a process begins at the deadline
that it found first the last time. Only another process, with a shorter lease, can have made an
earlier one: that is found by a look at all leases, as often as such a look is cheap.
"""

from __future__ import annotations

import math

EVERY, SHARE = 1.0, 50.0
"""Looks at all leases are at least EVERY seconds apart, and take at most 1/SHARE of the time."""


class Ahead:
    """What one process knows about the leases of one queue."""

    def __init__(self) -> None:
        self.start = -math.inf
        """The deadline at which a search begins."""
        self._looked_at = math.inf
        self._next_look = -math.inf

    def is_due(self, now: float) -> bool:
        """Whether to look at all leases; also if the clock was set back."""
        return not self._looked_at <= now < self._next_look

    def saw(self, first: float | None, now: float, cost: float) -> None:
        """Note the first deadline that a look at all leases found, and its cost in seconds."""
        self.start = now if first is None else first
        self._looked_at, self._next_look = now, now + max(EVERY, SHARE * cost)

    def lower(self, deadline: float) -> None:
        """Note a new lease: searches must not begin behind it."""
        self.start = min(self.start, deadline)
