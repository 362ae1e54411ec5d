"""What is likely to happen in a history: each climate favours other collisions."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ackline.testing.model.generators import WORKERS, Generator
from ackline.testing.model.steps import ModelSteps

WORKLOAD_LENGTH = 4096


class Step(msgspec.Struct, frozen=True):
    """One thing that may happen: a method of `History`, and its arguments."""

    act: Callable[..., None]
    arguments: Mapping[str, Any]

    def play(self, history: ModelSteps) -> None:
        self.act(history, **self.arguments)

    def __str__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        return f"{self.act.__name__}({arguments})"


def _enqueue(c: Generator) -> Step:
    return Step(ModelSteps.enqueue, {"queue": c.queue(), "drafts": c.list_of(c.draft, 4)})


def _claim(c: Generator) -> Step:
    return Step(ModelSteps.claim, {"queue": c.queue(), "request": c.request()})


def _enqueue_and_claim(c: Generator) -> Step:
    arguments = {"queue": c.queue(), "drafts": c.list_of(c.draft, 3), "request": c.request()}
    return Step(ModelSteps.enqueue_and_claim, arguments)


def _settle_and_claim(c: Generator) -> Step:
    arguments = {"settlings": c.list_of(c.settling, 3), "request": c.request()}
    return Step(ModelSteps.settle_and_claim, arguments)


def _settle(c: Generator) -> Step:
    astray = c.of(*[False] * 15, True)
    return Step(ModelSteps.settle, {"settlings": c.list_of(c.settling, 3), "astray": astray})


def _heartbeat(c: Generator) -> Step:
    arguments = {
        "backs": c.list_of(c.back, 4),
        "worker": c.of(*WORKERS),
        "seconds": c.of(5.0, 30.0),
        "ttl": c.of(15.0, 15.0, 0.0),
    }
    return Step(ModelSteps.heartbeat, arguments)


def _advance(c: Generator) -> Step:
    return Step(ModelSteps.advance, {"seconds": c.seconds()})


def _read_leases(c: Generator) -> Step:
    return Step(
        ModelSteps.look_for_leases, {"queue": c.queue(), "worker": c.of(None, None, *WORKERS)}
    )


def _expire(c: Generator) -> Step:
    return Step(ModelSteps.expire, {"back": c.back()})


def _crash_and_sweep(c: Generator) -> Step:
    return Step(ModelSteps.crash_and_sweep, {"queue": c.queue(), "seconds": c.seconds()})


def _operate(c: Generator) -> Step:
    return Step(ModelSteps.operate, {"queue": c.queue(), "operations": c.list_of(c.operation, 4)})


def _promote(c: Generator) -> Step:
    return Step(ModelSteps.promote, {"queue": c.queue(), "limit": c.of(1, 2, 4)})


def _prune(c: Generator) -> Step:
    return Step(ModelSteps.prune, {"queue": c.queue(), "registered": c.of(False, True)})


def _purge(c: Generator) -> Step:
    return Step(ModelSteps.purge, {"queue": c.queue(), "which": c.filter()})


def _configure(c: Generator) -> Step:
    return Step(ModelSteps.configure, {"queue": c.queue(), "settings": c.settings()})


def _write_key(c: Generator) -> Step:
    return Step(
        ModelSteps.write_key, {"value": c.of(None, b"v"), "version": c.of(None, 0, 999_999)}
    )


def _read_everything(c: Generator) -> Step:
    arguments = {"queue": c.queue(), "which": c.filter(), "size": c.of(1, 2, 4)}
    return Step(ModelSteps.read_everything, arguments)


Weights = Mapping[Callable[[Generator], Step], int]

_WORK: Weights = {
    _enqueue: 2,
    _enqueue_and_claim: 3,
    _claim: 3,
    _settle: 4,
    _settle_and_claim: 3,
    _advance: 2,
    _crash_and_sweep: 2,
}
_RACES: Weights = {_heartbeat: 3, _read_leases: 2, _expire: 3}
_OPERATING: Weights = {_operate: 6, _prune: 1, _promote: 1, _read_everything: 1, _write_key: 1}
_RARE: Weights = {_configure: 1, _purge: 1}


def _workload(
    weights: Weights, groups: tuple[str | None, ...] = (None,)
) -> Callable[[], tuple[Step, ...]]:
    @functools.cache
    def happenings() -> tuple[Step, ...]:
        source = random.Random(0)
        choice = Generator(source, groups)
        makers = source.choices(list(weights), list(weights.values()), k=WORKLOAD_LENGTH)
        return tuple(make(choice) for make in makers)

    return happenings


WORKLOADS: Mapping[str, Callable[[], tuple[Step, ...]]] = {
    "work": _workload(_WORK),
    "races": _workload({**_WORK, **_RACES}),
    "operating": _workload({**_WORK, **_OPERATING}),
    "groups": _workload({**_WORK, **_OPERATING, **_RARE}, ("g", "g", "h")),
    "everything": _workload({**_WORK, **_RACES, **_OPERATING, **_RARE}, (None, None, "g", "h")),
}
"""Each makes its list at its first call, and returns the same list every time."""
