"""A rate with bursts (GCRA): one number for each limited caller, and no timer."""

from __future__ import annotations

import msgspec


class Rate(msgspec.Struct, frozen=True):
    """`per_second` in the long run, and up to `burst` at once."""

    per_second: float
    burst: float

    def acquire(self, paid_until: float, now: float, cost: float) -> tuple[float, float]:
        """When all that was admitted will be paid for, and how long to wait instead (0: admitted).

        A cost larger than a whole burst is admitted when nothing is owed, and paid for afterwards:
        otherwise it would wait forever.

        >>> Rate(per_second=10, burst=5).charge(due=0.0, now=100.0, cost=5)
        (100.5, 0.0)
        >>> Rate(per_second=10, burst=5).charge(due=100.5, now=100.0, cost=1)
        (100.5, 0.1)
        """
        owed_from = max(paid_until, now)
        room = self.burst - min(cost, self.burst)
        wait = round(owed_from - now - room / self.per_second, 9)
        if wait > 0:
            return paid_until, wait
        return owed_from + cost / self.per_second, 0.0
