"""Where a job stands, before and after a transition."""

from __future__ import annotations

from typing import Any

from ackline.events import Act
from ackline.job import State
from ackline.stores.postgres.codes import name_of
from ackline.stores.postgres.homes import Past
from ackline.stores.postgres.leases import Lease
from ackline.stores.postgres.queues import Body
from ackline.stores.shared.records import SETTLING, STATES

NOWHERE, READY, PARKED, REST, LEASED = range(5)
"""A job's home, the table in which it stands, as `standings` numbers them."""


class Standing:
    """A job within a batch of transitions; its changes are written at the end of the batch."""

    __slots__ = (
        "act", "at", "attempts", "cancel_requested", "finished", "group", "home", "id", "kind",
        "num", "origin", "priority", "rank", "result", "started", "state", "token", "worker",
    )  # fmt: skip

    def __init__(self, id: str, body: Body) -> None:
        self.id = id
        self.num, self.kind, self.group, self.priority = body
        self.home = self.origin = NOWHERE
        self.state = State.QUEUED
        self.at = self.rank = 0.0
        self.attempts = self.token = 0
        self.worker = ""
        self.started: float | None = None
        self.finished: float | None = None
        self.act: Act | None = None
        self.cancel_requested = False
        self.result: bytes | None = None

    def over(self, now: float) -> bool:
        """Whether its retention has ended, so that it counts as gone."""
        return self.state.terminal and self.at <= now

    def past(self) -> Past:
        """What its home keeps of its last lease."""
        return Past(self.attempts, self.token, self.worker, self.started, self.act)


def resting(row: tuple[Any, ...]) -> Standing:
    """A job from a row of `standings`; its home may be unknown."""
    num, id, kind, group, priority, home, state, at, *past = row
    body = (num, name_of(kind), None if group is None else name_of(group), priority)
    job = Standing(id.decode(), body)
    if home is not None:
        attempts, token, worker, started, act, finished = past
        job.home = job.origin = home
        job.state, job.at, job.rank = STATES[state], at, at
        job.attempts, job.token = attempts or 0, token or 0
        job.worker = name_of(worker) if worker else ""
        job.started, job.finished = started, finished
        job.act = None if act is None else SETTLING[act]
    return job


def leased(job: Standing, lease: Lease) -> Standing:
    """The same job, found in a lease."""
    job.home = job.origin = LEASED
    job.state, job.at = State.PROCESSING, lease.deadline
    job.attempts, job.rank = lease.open[job.num]
    job.token, job.worker, job.started = lease.token, lease.worker, lease.started
    job.cancel_requested = job.num in lease.cancel_requested
    return job
