"""Giving a queue another name: by moving all that it has."""

from __future__ import annotations

from typing import Any

from ackline import lifecycle
from ackline.config import DEFAULT_SETTINGS
from ackline.job import State
from ackline.queue import Queue
from ackline.service.problems import Conflict
from ackline.stores.base import Filter

STEP = 500


def rename(source: Queue[Any, Any], target: Queue[Any, Any], by: str) -> None:
    """Move jobs and settings, in steps; one that is interrupted can be called again.

    The source is paused first, so that no job is handed out on its way. Jobs that run keep it
    where it is: their workers know them under the old name.
    """
    if source.key == target.key:
        raise Conflict(f"queue {source.name!r} is called so already")
    settings = source.stored_settings()
    source.pause(by=by)
    if running := source.counts()[State.PROCESSING]:
        if not settings.paused:
            source.resume(by=by)
        raise Conflict(f"queue {source.name!r} has {running} jobs that run: let them end first")
    if target.stored_settings() == DEFAULT_SETTINGS:
        target.store.configure(target.key, settings, by)
    _move_all(source, target, by)
    source.store.configure(source.key, DEFAULT_SETTINGS, by)


def _move_all(source: Queue[Any, Any], target: Queue[Any, Any], by: str) -> None:
    while jobs := source.store.page(source.key, Filter(), None, STEP).jobs:
        moves = [lifecycle.move(job.id, target.key, by) for job in jobs]
        if not any(verdict.applied for verdict in source.apply(moves)):
            raise Conflict(
                f"queue {target.name!r} has jobs of the same ids as {source.name!r}: "
                f"{len(jobs)} jobs or more stay where they are"
            )
