"""All maintenance loops for some queues, started and stopped together."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Self

import msgspec

from ackline.core.cron import Schedule
from ackline.core.limits import Seconds, as_seconds
from ackline.maintenance.loop import LoopStats, MaintenanceLoop
from ackline.maintenance.promoter import Promoter
from ackline.maintenance.pruner import Pruner
from ackline.maintenance.reaper import Reaper
from ackline.maintenance.scheduler import Scheduler
from ackline.maintenance.store_monitor import StoreMonitor
from ackline.queue import Queue

logger = logging.getLogger("ackline")


class MaintenanceStats(msgspec.Struct, frozen=True, kw_only=True):
    """What all loops have done so far, in total and by loop."""

    promoted: int
    expired: int
    dead_lettered: int
    pruned: int
    fired: int
    loops: tuple[LoopStats, ...]


class Maintenance:
    """All loops for some queues; `schedules` are added to those that the queues have.

    With `recovery=False`, it expires no leases, and only reports those that are stuck.

    >>> with Maintenance([queue]):
    ...     serve()  # doctest: +SKIP
    """

    def __init__(
        self,
        queues: Sequence[Queue[Any, Any]],
        *,
        schedules: Mapping[Queue[Any, Any], Sequence[Schedule]] | None = None,
        promote_every: Seconds = 1.0,
        sweep_every: Seconds = 1.0,
        prune_every: Seconds = 30.0,
        stuck_after: Seconds | None = None,
        recovery: bool = True,
        monitor_every: Seconds = 60.0,
    ) -> None:
        self.loops: list[MaintenanceLoop] = []
        # Separate loops for each store: one that hangs does not delay the others.
        for group in _by_store(queues):
            self.loops += [
                Promoter(group, as_seconds(promote_every)),
                Reaper(
                    group,
                    as_seconds(sweep_every),
                    stuck_after=as_seconds(stuck_after),
                    recovery=recovery,
                ),
                Pruner(group, as_seconds(prune_every)),
                StoreMonitor(group, as_seconds(monitor_every)),
            ]
        for queue in dict.fromkeys([*queues, *(schedules or {})]):
            if all_schedules := [*queue.schedules, *(schedules or {}).get(queue, ())]:
                self.loops.append(Scheduler(queue, all_schedules))

    def start(self) -> None:
        """Start every loop in its own thread."""
        for loop in self.loops:
            loop.start()
        intervals = {loop.name: f"{loop.name} every {loop.interval:g} s" for loop in self.loops}
        logger.info("maintenance started: %s", ", ".join(intervals.values()))

    def stop(self, timeout: Seconds = 5.0) -> None:
        """Stop every loop after its current step."""
        for loop in self.loops:
            loop.stop(as_seconds(timeout))

    def step(self) -> None:
        """Do all that is due now, once, in the caller's thread."""
        for loop in self.loops:
            loop.step()

    def stats(self) -> MaintenanceStats:
        """What has been done so far."""
        loops = tuple(loop.stats() for loop in self.loops)
        names = MaintenanceStats.__struct_fields__[:-1]
        totals = {name: sum(loop.done.get(name, 0) for loop in loops) for name in names}
        return MaintenanceStats(**totals, loops=loops)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()


def _by_store(queues: Sequence[Queue[Any, Any]]) -> list[list[Queue[Any, Any]]]:
    groups: dict[int, list[Queue[Any, Any]]] = {}
    for queue in queues:
        groups.setdefault(id(queue.store), []).append(queue)
    return list(groups.values())
