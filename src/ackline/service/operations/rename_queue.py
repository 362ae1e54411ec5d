"""Renames a queue by moving everything that it has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ackline.core import lifecycle
from ackline.core.config import DEFAULT_SETTINGS, QueueSettings
from ackline.core.job import State
from ackline.queue import Queue
from ackline.queue.operate import delete_metadata, metadata_of
from ackline.service.http.problems import Conflict
from ackline.service.threads.slow_work import Chunks
from ackline.stores.contract import Filter, KeyValue, KeyWrite, find_each_job

PAGE = 500

AnyQueue = Queue[Any, Any]


def rename_steps(
    source: AnyQueue, target: AnyQueue, by: str, *, merge: bool = False
) -> Chunks[None]:
    """Move jobs, settings and reserved keys of a queue, all or nothing.

    The source is paused first, so that no job is claimed meanwhile. Refused while jobs run,
    because their workers know them by the old name. With `merge`, the target may already exist,
    as it does after a crash during a rename.
    """
    if source.key == target.key:
        raise Conflict(f"{source.name!r} is already the name of this queue")
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
                f"there is already a queue {target.name!r}: with `merge`, both become one "
                "with its settings"
            )


def _require_no_common_ids(source: AnyQueue, target: AnyQueue) -> Chunks[None]:
    """Refuse an id that both queues have, before anything is moved: its job cannot move."""
    for ids in _pages(source):
        common = [job.id for job in find_each_job(target.store, target.key, ids) if job is not None]
        if common:
            raise Conflict(
                f"both queues have a job {common[0]!r}, and {len(common)} of {len(ids)} compared "
                "ids in common; nothing was moved"
            )
        yield


def _require_idle(source: AnyQueue) -> None:
    if running := source.counts()[State.PROCESSING]:
        raise Conflict(f"queue {source.name!r} has {running} running jobs: wait until they finish")


def _move(source: AnyQueue, target: AnyQueue, settings: QueueSettings, by: str) -> Chunks[None]:
    is_new = target.settings() == DEFAULT_SETTINGS
    if is_new:
        target.store.configure(target.key, settings, by)
    reserved_keys = metadata_of(source)
    _copy_reserved_keys(reserved_keys, target)
    moved: list[str] = []
    try:
        yield from _move_all(source, target, by, moved)
        while not source.store.drop(source.key, by):
            source.store.prune(source.key, PAGE)  # expired jobs did not move
            yield from _move_all(source, target, by, moved)
    except BaseException:
        # For example an id that was enqueued in both meanwhile: undo everything.
        _move_back(source, target, by, moved)
        if is_new:
            target.store.configure(target.key, DEFAULT_SETTINGS, by)
        raise
    delete_metadata(source, reserved_keys)


def _copy_reserved_keys(reserved_keys: Iterable[KeyValue], target: AnyQueue) -> None:
    """Copy the reserved keys of a queue to its new name; those that the target has stay."""
    for entry in reserved_keys:
        reserved, family, _, *rest = entry.key
        write = KeyWrite(key=(reserved, family, target.name, *rest), value=entry.value, version=0)
        target.store.write_keys(target.key.tenant, [write])


def _move_all(source: AnyQueue, target: AnyQueue, by: str, moved: list[str]) -> Chunks[None]:
    while jobs := source.store.page(source.key, Filter(), None, PAGE).jobs:
        verdicts = source.apply([lifecycle.move(job.id, target.key, by) for job in jobs])
        done = [job.id for job, verdict in zip(jobs, verdicts, strict=True) if verdict.applied]
        moved += done
        if not done:
            raise Conflict(
                f"{len(jobs)} jobs of {source.name!r} cannot be moved, such as {jobs[0].id!r}: "
                f"they are running, or {target.name!r} has jobs with the same ids. "
                "Nothing was changed"
            )
        yield


def _move_back(source: AnyQueue, target: AnyQueue, by: str, moved: list[str]) -> None:
    for start in range(0, len(moved), PAGE):
        ids = moved[start : start + PAGE]
        # Not limited: the jobs were in this queue before.
        target.store.apply(target.key, [lifecycle.move(id, source.key, by) for id in ids])


def _pages(queue: AnyQueue) -> Iterator[list[str]]:
    cursor: str | None = None
    while True:
        page = queue.store.page(queue.key, Filter(), cursor, PAGE)
        yield [job.id for job in page.jobs]
        cursor = page.cursor
        if cursor is None:
            return
