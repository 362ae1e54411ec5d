"""What a heartbeat does, given the leases that the jobs have."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

import msgspec

from ackline.core.lifecycle import extended_deadline, may_extend
from ackline.stores.contract import LeaseExtension

T = TypeVar("T")


JobLease = tuple[T, int, float, bool]
"""The lease of a job, however the store knows that: its token, its deadline, and whether the job
was asked to stop."""


class HeartbeatPlan(msgspec.Struct, Generic[T]):
    """The leases to extend, each with its new deadline, and which of the holds to answer with."""

    kept: list[tuple[T, float]]
    lost: list[int]
    cancelled: list[int]


def plan_heartbeat(
    holds: Iterable[tuple[int, LeaseExtension]],
    find: Callable[[str], JobLease[T] | None],
    now: float,
) -> HeartbeatPlan[T]:
    """Which of a worker's leases go on, and until when; `find` is None for a job without one."""
    plan: HeartbeatPlan[T] = HeartbeatPlan([], [], [])
    for index, hold in holds:
        lease = find(hold.id)
        if lease is None:
            plan.lost.append(index)
            continue
        job, token, deadline, cancel_requested = lease
        if not may_extend(hold.token, token, deadline, now):
            plan.lost.append(index)
            continue
        plan.kept.append((job, extended_deadline(deadline, now, hold.seconds)))
        if cancel_requested:
            plan.cancelled.append(index)
    return plan
