"""What a heartbeat does, given the leases that the jobs have."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, NamedTuple, TypeVar

import msgspec

from ackline.lifecycle import kept_until, may_extend
from ackline.stores.base import Hold

T = TypeVar("T")


class JobLease(NamedTuple, Generic[T]):
    """The lease that a job has, as the store has found it."""

    job: T
    """How the store knows the job."""
    token: int
    deadline: float
    cancel_requested: bool


class HeartbeatPlan(msgspec.Struct, Generic[T]):
    """The leases to extend, each with its new deadline, and which of the holds to answer with."""

    kept: list[tuple[T, float]]
    lost: list[int]
    cancelled: list[int]


def plan_heartbeat(
    holds: Iterable[tuple[int, Hold]], find: Callable[[str], JobLease[T] | None], now: float
) -> HeartbeatPlan[T]:
    """Which of a worker's leases go on, and until when; `find` is None for a job without one."""
    plan = HeartbeatPlan[T]([], [], [])
    for index, hold in holds:
        lease = find(hold.id)
        if lease is None or not may_extend(hold.token, lease.token, lease.deadline, now):
            plan.lost.append(index)
            continue
        plan.kept.append((lease.job, kept_until(lease.deadline, now, hold.seconds)))
        if lease.cancel_requested:
            plan.cancelled.append(index)
    return plan
