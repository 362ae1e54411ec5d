"""Fair shares for clients that take from several queues, even one job per request."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence

from ackline.service.http.problems import Unprocessable
from ackline.worker.fair_share import FairShare, QueueShare

MAX_QUEUES = 64
"""Queues that one client may take from at once; each of them is listened to."""

MIN_WEIGHT, MAX_WEIGHT = 0.001, 1000.0

CACHE_SIZE = 1000
"""Sets of queues that are remembered; the shares of a forgotten set begin anew."""

Weights = tuple[tuple[str, float], ...]
"""Queues by name, each with its weight."""


def queue_weights(queues: Sequence[str], weights: Sequence[float] | None) -> Weights:
    """Each queue with its weight, 1 by default.

    >>> weighted(["email", "billing"], [1, 3])
    (('email', 1), ('billing', 3))
    """
    once = len(set(queues)) == len(queues)
    if not 1 <= len(queues) <= MAX_QUEUES or not once or "" in queues:
        raise Unprocessable(f"name 1 to {MAX_QUEUES} queues, each once", at="queue")
    weights = [1.0] * len(queues) if weights is None else weights
    fit = all(MIN_WEIGHT <= weight <= MAX_WEIGHT for weight in weights)
    if len(weights) != len(queues) or not fit:
        raise Unprocessable(
            f"weights are numbers from {MIN_WEIGHT:g} to {MAX_WEIGHT:g}, one for each of the "
            f"{len(queues)} queues in their order",
            at="weight",
        )
    return tuple(zip(queues, weights, strict=True))


class FairShareCache:
    """How much each queue got from clients that take from the same queues by the same weights."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, Weights, int], tuple[FairShare, list[QueueShare]]]
        self._known = OrderedDict()

    def of(self, tenant: str, weights: Weights, most: int) -> tuple[FairShare, list[QueueShare]]:
        """The shares of these queues, for clients that take up to `most` jobs at once."""
        if len(weights) == 1:
            return _shares(weights, most)  # nothing to remember
        place = (tenant, weights, most)
        if place not in self._known:
            self._known[place] = _shares(weights, most)
        self._known.move_to_end(place)
        if len(self._known) > CACHE_SIZE:
            self._known.popitem(last=False)
        return self._known[place]


def _shares(weights: Weights, most: int) -> tuple[FairShare, list[QueueShare]]:
    numbers = [weight for _, weight in weights]
    # A queue with jobs again catches up by two claims, not by all that it missed while empty.
    shares = FairShare(math.ceil(2 * most * max(numbers) / min(numbers)))
    return shares, [shares.add(weight) for weight in numbers]
