"""Which leases a heartbeat extends, given the current leases of the jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

import msgspec

from ackline.core.lifecycle import extended_deadline, may_extend
from ackline.stores.contract import LeaseExtension

T = TypeVar("T")


JobLease = tuple[T, int, float, bool]
"""The lease of a job: the store's own handle of the job, the token, the deadline, and whether
cancelling was requested."""


class HeartbeatPlan(msgspec.Struct, Generic[T]):
    """The leases to extend with their new deadlines; lost and cancelled ones as indexes."""

    extended: list[tuple[T, float]]
    lost: list[int]
    cancelled: list[int]


def plan_heartbeat(
    extensions: Iterable[tuple[int, LeaseExtension]],
    find: Callable[[str], JobLease[T] | None],
    now: float,
) -> HeartbeatPlan[T]:
    """Decide which leases to extend, and until when; `find` returns None for a job without one."""
    plan: HeartbeatPlan[T] = HeartbeatPlan([], [], [])
    for index, extension in extensions:
        lease = find(extension.id)
        if lease is None:
            plan.lost.append(index)
            continue
        job, token, deadline, cancel_requested = lease
        if not may_extend(extension.token, token, deadline, now):
            plan.lost.append(index)
            continue
        plan.extended.append((job, extended_deadline(deadline, now, extension.seconds)))
        if cancel_requested:
            plan.cancelled.append(index)
    return plan
