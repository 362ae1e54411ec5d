"""What is likely to happen in a history: each climate favours other collisions."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ackline.testing.model.choices import WORKERS, Choice
from ackline.testing.model.history import History

MANY = 4096


class Happening(msgspec.Struct, frozen=True):
    """One thing that may happen: a method of `History`, and its arguments."""

    act: Callable[..., None]
    arguments: Mapping[str, Any]

    def play(self, history: History) -> None:
        self.act(history, **self.arguments)

    def __str__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        return f"{self.act.__name__}({arguments})"


def _enqueue(c: Choice) -> Happening:
    return Happening(History.enqueue, {"queue": c.queue(), "drafts": c.list_of(c.draft, 4)})


def _claim(c: Choice) -> Happening:
    return Happening(History.claim, {"queue": c.queue(), "request": c.request()})


def _enqueue_and_claim(c: Choice) -> Happening:
    arguments = {"queue": c.queue(), "drafts": c.list_of(c.draft, 3), "request": c.request()}
    return Happening(History.enqueue_and_claim, arguments)


def _settle_and_claim(c: Choice) -> Happening:
    arguments = {"settlings": c.list_of(c.settling, 3), "request": c.request()}
    return Happening(History.settle_and_claim, arguments)


def _settle(c: Choice) -> Happening:
    astray = c.of(*[False] * 15, True)
    return Happening(History.settle, {"settlings": c.list_of(c.settling, 3), "astray": astray})


def _heartbeat(c: Choice) -> Happening:
    arguments = {
        "backs": c.list_of(c.back, 4),
        "worker": c.of(*WORKERS),
        "seconds": c.of(5.0, 30.0),
        "ttl": c.of(15.0, 15.0, 0.0),
    }
    return Happening(History.heartbeat, arguments)


def _advance(c: Choice) -> Happening:
    return Happening(History.advance, {"seconds": c.seconds()})


def _look_for_leases(c: Choice) -> Happening:
    return Happening(
        History.look_for_leases, {"queue": c.queue(), "worker": c.of(None, None, *WORKERS)}
    )


def _expire(c: Choice) -> Happening:
    return Happening(History.expire, {"back": c.back()})


def _crash_and_sweep(c: Choice) -> Happening:
    return Happening(History.crash_and_sweep, {"queue": c.queue(), "seconds": c.seconds()})


def _operate(c: Choice) -> Happening:
    return Happening(History.operate, {"queue": c.queue(), "operations": c.list_of(c.operation, 4)})


def _promote(c: Choice) -> Happening:
    return Happening(History.promote, {"queue": c.queue(), "limit": c.of(1, 2, 4)})


def _prune(c: Choice) -> Happening:
    return Happening(History.prune, {"queue": c.queue(), "registered": c.of(False, True)})


def _purge(c: Choice) -> Happening:
    return Happening(History.purge, {"queue": c.queue(), "which": c.filter()})


def _configure(c: Choice) -> Happening:
    return Happening(History.configure, {"queue": c.queue(), "settings": c.settings()})


def _write_key(c: Choice) -> Happening:
    return Happening(
        History.write_key, {"value": c.of(None, b"v"), "version": c.of(None, 0, 999_999)}
    )


def _look_around(c: Choice) -> Happening:
    arguments = {"queue": c.queue(), "which": c.filter(), "size": c.of(1, 2, 4)}
    return Happening(History.look_around, arguments)


Weights = Mapping[Callable[[Choice], Happening], int]

_WORK: Weights = {
    _enqueue: 2,
    _enqueue_and_claim: 3,
    _claim: 3,
    _settle: 4,
    _settle_and_claim: 3,
    _advance: 2,
    _crash_and_sweep: 2,
}
_RACES: Weights = {_heartbeat: 3, _look_for_leases: 2, _expire: 3}
_OPERATING: Weights = {_operate: 6, _prune: 1, _promote: 1, _look_around: 1, _write_key: 1}
_RARE: Weights = {_configure: 1, _purge: 1}


def _climate(
    weights: Weights, groups: tuple[str | None, ...] = (None,)
) -> Callable[[], tuple[Happening, ...]]:
    @functools.cache
    def happenings() -> tuple[Happening, ...]:
        source = random.Random(0)
        choice = Choice(source, groups)
        makers = source.choices(list(weights), list(weights.values()), k=MANY)
        return tuple(make(choice) for make in makers)

    return happenings


CLIMATES: Mapping[str, Callable[[], tuple[Happening, ...]]] = {
    "work": _climate(_WORK),
    "races": _climate({**_WORK, **_RACES}),
    "operating": _climate({**_WORK, **_OPERATING}),
    "groups": _climate({**_WORK, **_OPERATING, **_RARE}, ("g", "g", "h")),
    "everything": _climate({**_WORK, **_RACES, **_OPERATING, **_RARE}, (None, None, "g", "h")),
}
"""Each makes its list at its first call, and returns the same list every time."""
