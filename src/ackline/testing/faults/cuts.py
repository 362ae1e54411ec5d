"""Which connection is cut, and at which moment: chosen in advance, or drawn by a seed."""

from __future__ import annotations

import random
import threading
from collections import Counter
from typing import Literal

import msgspec

Moment = Literal["before", "after"]
"""Before the request reaches the server, or after the server has answered it."""


class Order(msgspec.Struct):
    """So many cuts that are still to come."""

    moment: Moment
    count: int
    skip: int
    matching: bytes


class Cuts:
    """Decides over each exchange as it begins; any thread may ask."""

    def __init__(self) -> None:
        self.done: Counter[Moment] = Counter()
        self._orders: list[Order] = []
        self._probability = 0.0
        self._chance = random.Random()
        self._lock = threading.Lock()

    def order(
        self, moment: Moment, *, count: int = 1, skip: int = 0, matching: bytes = b""
    ) -> None:
        """Cut the next exchanges whose request has these bytes in it, after letting some pass."""
        with self._lock:
            self._orders.append(Order(moment, count, skip, matching))

    def at_random(self, probability: float, seed: int) -> None:
        """Cut each exchange with this probability, at one moment or the other; 0 ends it."""
        with self._lock:
            self._probability = probability
            self._chance = random.Random(seed)

    def clear(self) -> None:
        """No more cuts."""
        with self._lock:
            self._orders.clear()
            self._probability = 0.0

    def decide(self, request: bytes) -> Moment | None:
        """What happens to the exchange that begins with this."""
        with self._lock:
            moment = self._ordered(request) or self._drawn()
            if moment is not None:
                self.done[moment] += 1
            return moment

    def _ordered(self, request: bytes) -> Moment | None:
        for order in self._orders:
            if order.matching not in request:
                continue
            if order.skip:
                order.skip -= 1
                continue
            order.count -= 1
            if order.count == 0:
                self._orders.remove(order)
            return order.moment
        return None

    def _drawn(self) -> Moment | None:
        if self._chance.random() >= self._probability:
            return None
        return self._chance.choice(("before", "after"))
