"""Giving a queue another name: by moving all that it has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ackline import lifecycle
from ackline.config import DEFAULT_SETTINGS
from ackline.job import State
from ackline.queue import Queue
from ackline.queue.dropping import forget, notes_of
from ackline.service.problems import Conflict
from ackline.stores.base import Filter, Key, KeyWrite

STEP = 500


def rename(source: Queue[Any, Any], target: Queue[Any, Any], by: str) -> None:
    """Move jobs, settings and schedules, in steps; one that is interrupted can be called again.

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
    notes = notes_of(source)
    _copy_schedules(notes, target)
    _move_all(source, target, by)
    while not source.store.drop(source.key, by):
        source.store.prune(source.key, STEP)  # what was past its time did not move
        _move_all(source, target, by)
    forget(source, notes)


def _copy_schedules(notes: Iterable[Key], target: Queue[Any, Any]) -> None:
    for note in notes:
        own, sort, _, *rest = note.key
        if sort in ("cron", "schedules"):
            write = KeyWrite(key=(own, sort, target.name, *rest), value=note.value, version=0)
            target.store.write_keys(target.key.tenant, [write])


def _move_all(source: Queue[Any, Any], target: Queue[Any, Any], by: str) -> None:
    while jobs := source.store.page(source.key, Filter(), None, STEP).jobs:
        moves = [lifecycle.move(job.id, target.key, by) for job in jobs]
        if not any(verdict.applied for verdict in source.apply(moves)):
            raise Conflict(
                f"queue {target.name!r} has jobs of the same ids as {source.name!r}: "
                f"{len(jobs)} jobs or more stay where they are"
            )
