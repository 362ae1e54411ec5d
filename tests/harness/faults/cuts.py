"""Which connection is cut, and at which moment: chosen in advance, or drawn by a seed."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Sequence
from typing import Literal

import msgspec

CutPoint = Literal["before", "after", "delivered"]
"""Before the request reaches the server, after the server has answered it, or when the client has
its answer."""


class ConnectionCut(msgspec.Struct):
    """The next `count` cuts, of exchanges with these bytes in the request or the answer."""

    moment: CutPoint
    count: int = 1
    skip: int = 0
    matching: bytes = b""
    answering: bytes = b""


class CutSchedule:
    """Decides for each exchange whether it is cut; any thread may ask."""

    def __init__(self) -> None:
        self.done: Counter[CutPoint] = Counter()
        self._cuts: list[ConnectionCut] = []
        self._probability = 0.0
        self._chance = random.Random()
        self._lock = threading.Lock()

    def add(self, cut: ConnectionCut) -> None:
        """Cut the next exchanges that match, after letting `skip` of them pass."""
        with self._lock:
            self._cuts.append(msgspec.structs.replace(cut))

    def at_random(self, probability: float, seed: int) -> None:
        """Cut each exchange with this probability, at one moment or the other; 0 ends it."""
        with self._lock:
            self._probability = probability
            self._chance = random.Random(seed)

    def clear(self) -> None:
        """No more cuts."""
        with self._lock:
            self._cuts.clear()
            self._probability = 0.0

    def decide(self, request: bytes) -> CutPoint | None:
        """When to cut the exchange that begins with this request, if at all."""
        with self._lock:
            fitting = [cut for cut in self._cuts if not cut.answering and cut.matching in request]
            return self._count(self._next(fitting) or self._random_cut())

    def decide_on_answer(self, answer: bytes) -> CutPoint | None:
        """When to cut the exchange with this answer, if at all."""
        with self._lock:
            fitting = [cut for cut in self._cuts if cut.answering and cut.answering in answer]
            return self._count(self._next(fitting))

    def _count(self, moment: CutPoint | None) -> CutPoint | None:
        if moment is not None:
            self.done[moment] += 1
        return moment

    def _next(self, fitting: Sequence[ConnectionCut]) -> CutPoint | None:
        for cut in fitting:
            if cut.skip:
                cut.skip -= 1
                continue
            cut.count -= 1
            if cut.count == 0:
                self._cuts.remove(cut)
            return cut.moment
        return None

    def _random_cut(self) -> CutPoint | None:
        if self._chance.random() >= self._probability:
            return None
        return self._chance.choice(("before", "after"))
