"""Giving a queue another name, by moving everything that it has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ackline.core import lifecycle
from ackline.core.config import DEFAULT_SETTINGS, QueueSettings
from ackline.core.job import State
from ackline.queue import Queue
from ackline.queue.dropping import delete_metadata, metadata_of
from ackline.service.http.problems import Conflict
from ackline.service.threads.slow_work import Chunks
from ackline.stores.contract import Filter, KeyValue, KeyWrite, find_each_job

PAGE = 500

AnyQueue = Queue[Any, Any]


def rename_steps(
    source: AnyQueue, target: AnyQueue, by: str, *, merge: bool = False
) -> Chunks[None]:
    """Move jobs, settings and what is noted about the queue; all of it or nothing.

    The source is paused first, so that no job is handed out on its way. It is refused while jobs
    run, because their workers know them under the old name. With `merge`, the target may exist
    already, as it does after a rename that a crash has interrupted.
    """
    if source.key == target.key:
        raise Conflict(f"queue {source.name!r} already has this name")
    if not merge:
        _require_free(target)
    yield from _require_no_common_ids(source, target)
    settings = source.settings()
    source.pause(by=by)
    try:
        _require_idle(source)
        yield from _move(source, target, settings, by)
    except BaseException:
        if not settings.paused:
            source.resume(by=by)
        raise


def _require_free(target: AnyQueue) -> None:
    for info in target.store.describe(target.key.tenant, target.name):
        if any(info.counts.values()) or info.settings != DEFAULT_SETTINGS:
            raise Conflict(
                f"there is already a queue {target.name!r}: `merge` combines both and keeps "
                "its settings"
            )


def _require_no_common_ids(source: AnyQueue, target: AnyQueue) -> Chunks[None]:
    """Refuse, before anything is moved, an id that both queues have: its job could not be moved."""
    for ids in _pages(source):
        taken = [job.id for job in find_each_job(target.store, target.key, ids) if job is not None]
        if taken:
            raise Conflict(
                f"both queues have a job {taken[0]!r}; nothing was moved. Of {len(ids)} ids that "
                f"were compared, {len(taken)} are in both"
            )
        yield


def _require_idle(source: AnyQueue) -> None:
    if running := source.counts()[State.PROCESSING]:
        raise Conflict(f"queue {source.name!r} has {running} running jobs: let them finish first")


def _move(source: AnyQueue, target: AnyQueue, settings: QueueSettings, by: str) -> Chunks[None]:
    fresh = target.settings() == DEFAULT_SETTINGS
    if fresh:
        target.store.configure(target.key, settings, by)
    notes = metadata_of(source)
    _copy_reserved_keys(notes, target)
    moved: list[str] = []
    try:
        yield from _move_all(source, target, by, moved)
        while not source.store.drop(source.key, by):
            source.store.prune(source.key, PAGE)  # jobs past their time did not move
            yield from _move_all(source, target, by, moved)
    except BaseException:
        # Such as an id that was enqueued in both meanwhile: undo everything.
        _move_back(source, target, by, moved)
        if fresh:
            target.store.configure(target.key, DEFAULT_SETTINGS, by)
        raise
    delete_metadata(source, notes)


def _copy_reserved_keys(notes: Iterable[KeyValue], target: AnyQueue) -> None:
    """Copy the notes about a queue to its new name; notes that the target has stay."""
    for note in notes:
        own, sort, _, *rest = note.key
        write = KeyWrite(key=(own, sort, target.name, *rest), value=note.value, version=0)
        target.store.write_keys(target.key.tenant, [write])


def _move_all(source: AnyQueue, target: AnyQueue, by: str, moved: list[str]) -> Chunks[None]:
    while jobs := source.store.page(source.key, Filter(), None, PAGE).jobs:
        verdicts = source.apply([lifecycle.move(job.id, target.key, by) for job in jobs])
        done = [job.id for job, verdict in zip(jobs, verdicts, strict=True) if verdict.applied]
        moved += done
        if not done:
            raise Conflict(
                f"{len(jobs)} jobs of {source.name!r} cannot move, {jobs[0].id!r} among them: "
                f"they are running, or {target.name!r} has jobs with the same ids. "
                "Nothing was changed"
            )
        yield


def _move_back(source: AnyQueue, target: AnyQueue, by: str, moved: list[str]) -> None:
    for start in range(0, len(moved), PAGE):
        ids = moved[start : start + PAGE]
        # Not limited: the queue had room for them.
        target.store.apply(target.key, [lifecycle.move(id, source.key, by) for id in ids])


def _pages(queue: AnyQueue) -> Iterator[list[str]]:
    cursor: str | None = None
    while True:
        page = queue.store.page(queue.key, Filter(), cursor, PAGE)
        yield [job.id for job in page.jobs]
        cursor = page.cursor
        if cursor is None:
            return
