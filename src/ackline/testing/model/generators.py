"""Random steps with few names and round times, so that they collide."""

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
"""More events than a prune writes, so a reader that is up to date never loses any."""

_SETTINGS = QueueSettings(
    policy=Policy(backoff=fixed(10.0), keep_failed=RETENTION, keep_cancelled=50.0)
)

T = TypeVar("T")


def policy_of(job: Record) -> ResolvedPolicy:
    """The policy in all histories."""
    return resolve_policy(job, _SETTINGS)


SETTLING = fenced_transitions(policy_of, snoozed=5.0, extended=30.0)


class Operation(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an operator or producer requests of one job."""

    act: Act
    id: str
    delay: float = 0.0
    change: Edit | None = None
    target: int = 0

    def step(self, queues: Sequence[QueueKey]) -> Transition:
        """The transition, on the queues of one history."""
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
                raise AssertionError(f"{self.act} is not an operation")


class Generator:
    """Generates the arguments of steps from a seed."""

    def __init__(self, random: random.Random, groups: Sequence[str | None]) -> None:
        self._random = random
        self._groups = groups

    def choose(self, *options: T) -> T:
        """One of the options."""
        return self._random.choice(options)

    def choose_list(self, make: Callable[[], T], most: int) -> list[T]:
        """One result of `make`, or a few."""
        return [make() for _ in range(self._random.randint(1, most))]

    def queue(self) -> int:
        return self.choose(0, 0, 0, 1)

    def lease_age(self) -> int:
        """Index from the end of the known leases or reads: some are live, others are stale."""
        return self.choose(0, 0, 0, 1, 1, 2, 3, 4, 6)

    def seconds(self) -> float:
        return self.choose(
            0.25, 1.0, 4.75, 5.0, 5.0, 10.0, 10.0, 20.0, 30.0, 30.0, 60.0, 101.0, 4000.0
        )

    def draft(self) -> Draft:
        return Draft(
            self.choose(*IDS),
            self.choose(*KINDS),
            self.choose(b"1", b"2", b""),
            self.choose(5, 5, 0, 9),
            self.choose(0.0, 0.0, 0.0, 5.0, 60.0),
            None,
            self._options(),
            self.choose(False, True),
        )

    def _options(self) -> Options:
        return Options(
            max_attempts=self._random.randint(1, MAX_ATTEMPTS),
            lease=self.choose(None, None, 5.0),
            result_ttl=self.choose(20.0, 20.0, 0.0, 3600.0),
            group=self.choose(*self._groups),
            keys_if_undelivered=self.choose((), UNDELIVERED_KEYS),
        )

    def request(self) -> ClaimRequest:
        return ClaimRequest(
            worker=self.choose(*WORKERS),
            limit=self.choose(1, 1, 2, 4, 0),
            lease=self.choose(30.0, 10.0),
            kinds=self.choose(None, None, None, frozenset("x"), frozenset("y")),
        )

    def settling(self) -> tuple[int, str]:
        return self.lease_age(), self.choose(*SETTLING)

    def operation(self) -> Operation:
        act = self.choose(
            Act.CANCEL, Act.REQUEST_CANCEL, Act.REDRIVE, Act.REDRIVE, Act.EDIT, Act.MOVE
        )
        change = self._edit() if act is Act.EDIT else self.choose(None, None, self._edit())
        return Operation(
            act, self.choose(*IDS), self.choose(0.0, 0.0, 5.0), change, self.choose(1, 0)
        )

    def _edit(self) -> Edit:
        return Edit(
            self.choose(None, b"edited"),
            self.choose(None, 0, 9),
            self.choose(None, None, 0.0, 5.0),
            self.choose(None, 0.0, 500.0),
        )

    def settings(self) -> QueueSettings:
        return QueueSettings(
            paused=self.choose(False, False, False, False, True),
            ageing=self.choose(60.0, 0.0, 1.0),
            group_limit=self.choose(1, 1, 2),
            max_jobs=self.choose(None, None, None, 3),
            repair_limit=self.choose(200, 200, 1),
            max_journal=self.choose(None, None, SMALL_JOURNAL),
            keep_journal=self.choose(RETENTION, 10.0),
        )

    def filter(self) -> Filter:
        return Filter(
            states=self.choose(frozenset(State), TERMINAL, WAITING, frozenset({State.PROCESSING})),
            kinds=self.choose(None, frozenset("x")),
            ids=self.choose(frozenset("a"), frozenset("bc"), frozenset("de"), None),
            text=self.choose(None, None, "edit"),
        )
