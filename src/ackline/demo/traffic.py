"""The demo's everyday load: it rises and falls for each queue, and a few jobs fail."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ackline import NewJob

PayloadAndOptions = tuple[Any, dict[str, Any]]
"""A payload, and the options of its job."""

HOSTS = ("north", "east", "south", "west", "harbour", "airport")
SEED = 7


class Tide(msgspec.Struct, frozen=True):
    """The load of one kind: `rate` jobs a second on average, rising and falling in a wave."""

    queue: str
    kind: str
    rate: float
    period: float

    def expected(self, at: float, seconds: float) -> float:
        """How many jobs are expected within the seconds before a moment."""
        wave = 1 + 0.75 * math.sin(2 * math.pi * (at / self.period) + len(self.queue))
        return self.rate * wave * seconds


TIDES = (
    Tide("acme/email", "welcome", 4.0, 40.0),
    Tide("acme/images", "resize", 2.0, 55.0),
    Tide("acme/payments", "charge", 1.5, 35.0),
    Tide("globex/email", "welcome", 3.0, 70.0),
    Tide("globex/reports", "monthly", 0.2, 60.0),
    Tide("initech/orders", "fulfil", 2.0, 50.0),
    Tide("initech/webhooks", "deliver", 2.0, 45.0),
)


class Traffic:
    """Makes the jobs; the same in each run, apart from the pace of the machine."""

    def __init__(self) -> None:
        self._dice = random.Random(SEED)
        self._number = 0
        self._make: Mapping[str, Callable[[str, int], PayloadAndOptions]] = {
            "welcome": self._welcome,
            "resize": self._resize,
            "charge": self._charge,
            "monthly": self._monthly,
            "fulfil": self._fulfil,
            "deliver": self._deliver,
        }

    def jobs(self, at: float, seconds: float) -> dict[str, list[NewJob[Any]]]:
        """The jobs that come within these seconds, by queue."""
        by_queue: dict[str, list[NewJob[Any]]] = {}
        for tide in TIDES:
            # The fraction is left to chance, so that small rates are met on average.
            for _ in range(int(tide.expected(at, seconds) + self._dice.random())):
                by_queue.setdefault(tide.queue, []).append(self._job(tide))
        return by_queue

    def _job(self, tide: Tide) -> NewJob[Any]:
        self._number += 1
        payload, options = self._make[tide.kind](tide.queue, self._number)
        return NewJob(
            payload, **{"id": f"{tide.kind}-{self._number}", "kind": tide.kind, **options}
        )

    def _one_in(self, number: int) -> bool:
        return self._dice.randrange(number) == 0

    def _takes(self, least: float, most: float) -> float:
        return round(self._dice.uniform(least, most), 2)

    def _welcome(self, queue: str, number: int) -> PayloadAndOptions:
        customer = queue.partition("/")[0]
        fails = self._dice.randint(1, 2) if self._one_in(9) else 0
        to = f"user-{number}@{customer}.example"
        return {"to": to, "fails": fails, "takes": self._takes(0.1, 0.5)}, {}

    def _resize(self, _queue: str, number: int) -> PayloadAndOptions:
        return {"file": f"products/{number}.jpg", "takes": self._takes(0.3, 1.2)}, {}

    def _charge(self, _queue: str, number: int) -> PayloadAndOptions:
        amount = self._dice.randint(500, 20_000) / 100
        order = {"order": 4000 + number, "amount": amount, "takes": self._takes(0.1, 0.4)}
        return order, {"priority": 7}

    def _monthly(self, _queue: str, number: int) -> PayloadAndOptions:
        pages = self._dice.randint(10, 60)
        later = {"delay": self._dice.randint(20, 90)} if self._one_in(4) else {}
        return {"customer": number, "pages": pages, "takes": 0.2}, later

    def _fulfil(self, _queue: str, number: int) -> PayloadAndOptions:
        order: dict[str, Any] = {"order": 4000 + number, "article": self._dice.randint(100, 999)}
        order["takes"] = self._takes(0.2, 1.0)
        if self._one_in(10):
            return order, {"kind": "follow-up", "delay": self._dice.randint(15, 120)}
        order["fails"] = self._dice.randint(1, 2) if self._one_in(12) else 0
        return order, {"priority": self._dice.choice((3, 5, 5, 5, 8))}

    def _deliver(self, _queue: str, number: int) -> PayloadAndOptions:
        host = f"{self._dice.choice(HOSTS)}.initech.example"
        payload: dict[str, Any] = {"host": host, "event": "order.paid", "order": 4000 + number}
        payload["takes"] = self._takes(0.2, 0.8)
        if self._one_in(14):
            payload["trouble"] = "refused" if self._one_in(2) else "slow"
        undelivered = ["undelivered", host, f"deliver-{number}"]
        return payload, {"keys_if_undelivered": [undelivered]}
