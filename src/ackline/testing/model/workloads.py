"""Workloads: how likely each step is, so that different races become likely."""

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
    """One step: a method of `ModelSteps` and its arguments."""

    act: Callable[..., None]
    arguments: Mapping[str, Any]

    def run(self, model: ModelSteps) -> None:
        self.act(model, **self.arguments)

    def __str__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        return f"{self.act.__name__}({arguments})"


def _enqueue(generator: Generator) -> Step:
    return Step(
        ModelSteps.enqueue,
        {"queue": generator.queue(), "drafts": generator.choose_list(generator.draft, 4)},
    )


def _claim(generator: Generator) -> Step:
    return Step(ModelSteps.claim, {"queue": generator.queue(), "request": generator.request()})


def _enqueue_and_claim(generator: Generator) -> Step:
    arguments = {
        "queue": generator.queue(),
        "drafts": generator.choose_list(generator.draft, 3),
        "request": generator.request(),
    }
    return Step(ModelSteps.enqueue_and_claim, arguments)


def _settle_and_claim(generator: Generator) -> Step:
    arguments = {
        "settlings": generator.choose_list(generator.settling, 3),
        "request": generator.request(),
    }
    return Step(ModelSteps.settle_and_claim, arguments)


def _settle(generator: Generator) -> Step:
    wrong_queue = generator.choose(*[False] * 15, True)
    return Step(
        ModelSteps.settle,
        {"settlings": generator.choose_list(generator.settling, 3), "wrong_queue": wrong_queue},
    )


def _heartbeat(generator: Generator) -> Step:
    arguments = {
        "ages": generator.choose_list(generator.lease_age, 4),
        "worker": generator.choose(*WORKERS),
        "seconds": generator.choose(5.0, 30.0),
        "ttl": generator.choose(15.0, 15.0, 0.0),
    }
    return Step(ModelSteps.heartbeat, arguments)


def _advance(generator: Generator) -> Step:
    return Step(ModelSteps.advance, {"seconds": generator.seconds()})


def _read_leases(generator: Generator) -> Step:
    return Step(
        ModelSteps.read_leases,
        {"queue": generator.queue(), "worker": generator.choose(None, None, *WORKERS)},
    )


def _expire(generator: Generator) -> Step:
    return Step(ModelSteps.expire, {"age": generator.lease_age()})


def _crash_and_sweep(generator: Generator) -> Step:
    return Step(
        ModelSteps.crash_and_sweep, {"queue": generator.queue(), "seconds": generator.seconds()}
    )


def _operate(generator: Generator) -> Step:
    return Step(
        ModelSteps.operate,
        {"queue": generator.queue(), "operations": generator.choose_list(generator.operation, 4)},
    )


def _promote(generator: Generator) -> Step:
    return Step(
        ModelSteps.promote, {"queue": generator.queue(), "limit": generator.choose(1, 2, 4)}
    )


def _prune(generator: Generator) -> Step:
    return Step(
        ModelSteps.prune, {"queue": generator.queue(), "registered": generator.choose(False, True)}
    )


def _purge(generator: Generator) -> Step:
    return Step(ModelSteps.purge, {"queue": generator.queue(), "which": generator.filter()})


def _configure(generator: Generator) -> Step:
    return Step(
        ModelSteps.configure, {"queue": generator.queue(), "settings": generator.settings()}
    )


def _write_key(generator: Generator) -> Step:
    return Step(
        ModelSteps.write_key,
        {"value": generator.choose(None, b"v"), "version": generator.choose(None, 0, 999_999)},
    )


def _read_everything(generator: Generator) -> Step:
    arguments = {
        "queue": generator.queue(),
        "which": generator.filter(),
        "size": generator.choose(1, 2, 4),
    }
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
    def steps() -> tuple[Step, ...]:
        source = random.Random(0)
        choice = Generator(source, groups)
        makers = source.choices(list(weights), list(weights.values()), k=WORKLOAD_LENGTH)
        return tuple(make(choice) for make in makers)

    return steps


WORKLOADS: Mapping[str, Callable[[], tuple[Step, ...]]] = {
    "work": _workload(_WORK),
    "races": _workload({**_WORK, **_RACES}),
    "operating": _workload({**_WORK, **_OPERATING}),
    "groups": _workload({**_WORK, **_OPERATING, **_RARE}, ("g", "g", "h")),
    "everything": _workload({**_WORK, **_RACES, **_OPERATING, **_RARE}, (None, None, "g", "h")),
}
"""Each builds its list at the first call, and returns the same one from then on."""
