"""What may happen in a history: with few names and round times, so that steps collide."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from ackline.core.config import Policy, QueueSettings, ResolvedPolicy, resolve_policy
from ackline.core.events import Act
from ackline.core.job import TERMINAL, WAITING, Draft, Options, QueueKey, Record, State
from ackline.core.lifecycle import (
    Edit,
    Transition,
    cancel,
    edit,
    move,
    redrive,
    request_cancel,
)
from ackline.core.retry import fixed
from ackline.stores.contract import ClaimRequest, Filter
from ackline.testing.fenced_transitions import fenced_transitions

IDS = ("a", "b", "c", "d", "e")
KINDS = ("x", "y")
WORKERS = ("w1", "w2")
UNDELIVERED_KEYS = (("lost", "k"),)
MAX_ATTEMPTS = 3
RETENTION = 100.0
SMALL_JOURNAL = 2 * len(IDS)
"""More events than a prune writes: a reader that has read all before is never cut off."""

_SETTINGS = QueueSettings(
    policy=Policy(backoff=fixed(10.0), keep_failed=RETENTION, keep_cancelled=50.0)
)

T = TypeVar("T")


def policy_of(job: Record) -> ResolvedPolicy:
    """The policy in all histories."""
    return resolve_policy(job, _SETTINGS)


SETTLING = fenced_transitions(policy_of, snoozed=5.0, extended=30.0)


class Operation(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an operator or producer asks of one job."""

    act: Act
    id: str
    delay: float = 0.0
    change: Edit | None = None
    target: int = 0

    def step(self, queues: Sequence[QueueKey]) -> Transition:
        """The transition, for the queues of one history."""
        match self.act:
            case Act.CANCEL:
                return cancel(self.id, ResolvedPolicy(keep_cancelled=50.0), by="me")
            case Act.REQUEST_CANCEL:
                return request_cancel(self.id)
            case Act.REDRIVE:
                return redrive(self.id, self.delay)
            case Act.EDIT:
                return edit(self.id, self.change or Edit())
            case Act.MOVE:
                return move(self.id, queues[self.target])
            case _:
                raise AssertionError(f"{self.act} is no operation")


class Generator:
    """Makes up what happens, from a seed."""

    def __init__(self, random: random.Random, groups: Sequence[str | None]) -> None:
        self._random = random
        self._groups = groups

    def of(self, *options: T) -> T:
        """One of the options."""
        return self._random.choice(options)

    def list_of(self, make: Callable[[], T], most: int) -> list[T]:
        """One of what `make` makes, or a few."""
        return [make() for _ in range(self._random.randint(1, most))]

    def queue(self) -> int:
        return self.of(0, 0, 0, 1)

    def back(self) -> int:
        """How far back in the list of leases or looks: some are live, others are stale."""
        return self.of(0, 0, 0, 1, 1, 2, 3, 4, 6)

    def seconds(self) -> float:
        return self.of(0.25, 1.0, 4.75, 5.0, 5.0, 10.0, 10.0, 20.0, 30.0, 30.0, 60.0, 101.0, 4000.0)

    def draft(self) -> Draft:
        return Draft(
            self.of(*IDS),
            self.of(*KINDS),
            self.of(b"1", b"2", b""),
            self.of(5, 5, 0, 9),
            self.of(0.0, 0.0, 0.0, 5.0, 60.0),
            None,
            self._options(),
            self.of(False, True),
        )

    def _options(self) -> Options:
        return Options(
            max_attempts=self._random.randint(1, MAX_ATTEMPTS),
            lease=self.of(None, None, 5.0),
            result_ttl=self.of(20.0, 20.0, 0.0, 3600.0),
            group=self.of(*self._groups),
            keys_if_undelivered=self.of((), UNDELIVERED_KEYS),
        )

    def request(self) -> ClaimRequest:
        return ClaimRequest(
            worker=self.of(*WORKERS),
            limit=self.of(1, 1, 2, 4, 0),
            lease=self.of(30.0, 10.0),
            kinds=self.of(None, None, None, frozenset("x"), frozenset("y")),
        )

    def settling(self) -> tuple[int, str]:
        return self.back(), self.of(*SETTLING)

    def operation(self) -> Operation:
        act = self.of(Act.CANCEL, Act.REQUEST_CANCEL, Act.REDRIVE, Act.REDRIVE, Act.EDIT, Act.MOVE)
        change = self._edit() if act is Act.EDIT else self.of(None, None, self._edit())
        return Operation(act, self.of(*IDS), self.of(0.0, 0.0, 5.0), change, self.of(1, 0))

    def _edit(self) -> Edit:
        return Edit(
            self.of(None, b"edited"),
            self.of(None, 0, 9),
            self.of(None, None, 0.0, 5.0),
            self.of(None, 0.0, 500.0),
        )

    def settings(self) -> QueueSettings:
        return QueueSettings(
            paused=self.of(False, False, False, False, True),
            ageing=self.of(60.0, 0.0, 1.0),
            group_limit=self.of(1, 1, 2),
            max_jobs=self.of(None, None, None, 3),
            max_journal=self.of(None, None, SMALL_JOURNAL),
            keep_journal=self.of(RETENTION, 10.0),
        )

    def filter(self) -> Filter:
        return Filter(
            states=self.of(frozenset(State), TERMINAL, WAITING, frozenset({State.PROCESSING})),
            kinds=self.of(None, frozenset("x")),
            ids=self.of(frozenset("a"), frozenset("bc"), frozenset("de"), None),
            text=self.of(None, None, "edit"),
        )
