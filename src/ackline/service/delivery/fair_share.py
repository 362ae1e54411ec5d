"""Fair shares for clients that claim from several queues, even one job per request."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence

from ackline.service.http.problems import Unprocessable
from ackline.worker.fair_share import FairShare, QueueShare

MAX_QUEUES = 64
"""Maximum number of queues that one client claims from; each needs a subscription."""

MIN_WEIGHT, MAX_WEIGHT = 0.001, 1000.0

CACHE_SIZE = 1000
"""Maximum number of sets of queues to remember; the shares of a forgotten set start over."""

Weights = tuple[tuple[str, float], ...]
"""Names of queues with their weights."""


def queue_weights(queues: Sequence[str], weights: Sequence[float] | None) -> Weights:
    """Each queue with its weight, 1 by default.

    >>> queue_weights(["email", "billing"], [1, 3])
    (('email', 1), ('billing', 3))
    """
    unique = len(set(queues)) == len(queues)
    if not 1 <= len(queues) <= MAX_QUEUES or not unique or "" in queues:
        raise Unprocessable(f"name 1 to {MAX_QUEUES} queues, each once", at="queue")
    weights = [1.0] * len(queues) if weights is None else weights
    valid = all(MIN_WEIGHT <= weight <= MAX_WEIGHT for weight in weights)
    if len(weights) != len(queues) or not valid:
        raise Unprocessable(
            f"weights are numbers from {MIN_WEIGHT:g} to {MAX_WEIGHT:g}, one for each of the "
            f"{len(queues)} queues in their order",
            at="weight",
        )
    return tuple(zip(queues, weights, strict=True))


class FairShareCache:
    """How much each queue got from clients with the same queues and weights."""

    def __init__(self) -> None:
        self._shares: OrderedDict[tuple[str, Weights, int], tuple[FairShare, list[QueueShare]]]
        self._shares = OrderedDict()

    def of(
        self, tenant: str, weights: Weights, max_jobs: int
    ) -> tuple[FairShare, list[QueueShare]]:
        """The shares of these queues, for clients that claim up to `max_jobs` at a time."""
        if len(weights) == 1:
            return _shares(weights, max_jobs)  # nothing to remember
        key = (tenant, weights, max_jobs)
        if key not in self._shares:
            self._shares[key] = _shares(weights, max_jobs)
        self._shares.move_to_end(key)
        if len(self._shares) > CACHE_SIZE:
            self._shares.popitem(last=False)
        return self._shares[key]


def _shares(weights: Weights, max_jobs: int) -> tuple[FairShare, list[QueueShare]]:
    numbers = [weight for _, weight in weights]
    # A queue that has jobs again catches up by two claims, not by all it missed while empty.
    shares = FairShare(math.ceil(2 * max_jobs * max(numbers) / min(numbers)))
    return shares, [shares.add(weight) for weight in numbers]
