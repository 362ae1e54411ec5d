"""The DLQ by what went wrong: errors that are alike are one group."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from ackline import alike, lifecycle
from ackline.job import Record, State
from ackline.queue import Queue
from ackline.stores.base import Filter

STEP = 500
PATIENCE = 2.0
"""Seconds to look through a large DLQ; the answer says whether that was all of it."""

MOST_GROUPS = 200

LONGEST_SAMPLE = 20_000
"""Characters of a sample's traceback."""

Remedy = Literal["redrive", "delete"]


class ErrorGroup(msgspec.Struct, kw_only=True):
    """Dead letters with the same cause, as far as their errors tell."""

    fingerprint: str
    type: str
    message: str
    """That of the last one."""
    count: int
    kinds: list[str]
    first_at: float
    last_at: float
    sample: str
    """The id of the last one."""
    traceback: str


def fingerprint(record: Record) -> str:
    """The same for dead letters whose errors are alike."""
    failure = record.failure
    if failure is None:
        return alike.fingerprint("", "no error was noted", "")
    return alike.fingerprint(failure.type, failure.message, failure.traceback)


def groups_in(queue: Queue[Any, Any], which: Filter) -> tuple[list[ErrorGroup], bool]:
    """The groups, the largest first, and whether all of the DLQ was looked at."""
    groups: dict[str, ErrorGroup] = {}
    until = time.monotonic() + PATIENCE
    complete = True
    for step in steps(queue, which):
        for record in step:
            _add(groups, record)
        if time.monotonic() > until:
            complete = False
            break
    largest = sorted(groups.values(), key=lambda one: -one.count)
    return largest[:MOST_GROUPS], complete and len(largest) <= MOST_GROUPS


def steps(queue: Queue[Any, Any], which: Filter) -> Iterator[list[Record]]:
    """The dead letters that match, some at a time."""
    cursor: str | None = None
    while True:
        page = queue.store.page(queue.key, which, cursor, STEP)
        yield page.jobs
        cursor = page.cursor
        if cursor is None:
            return


def chosen(queue: Queue[Any, Any], which: Filter, group: str | None) -> Iterator[list[Record]]:
    """The same, of one group if it is named."""
    for step in steps(queue, which):
        yield [job for job in step if group is None or fingerprint(job) == group]


def remedy(
    queue: Queue[Any, Any],
    action: Remedy,
    letters: Iterator[list[Record]],
    rate: float | None,
    by: str,
) -> int:
    """Redrive or delete dead letters that were there when it began; returns how many.

    With a `rate`, at most that many become due per second, to spare what they call.
    """
    began, done = queue.store.info().now, 0
    for step in letters:
        ids = [job.id for job in step if (job.finished_at or 0.0) <= began]
        if action == "delete":
            done += _delete(queue, ids, by)
        else:
            delays = ((done + index) / rate if rate else 0.0 for index in range(len(ids)))
            acts = [
                lifecycle.redrive(id, delay, by=by) for id, delay in zip(ids, delays, strict=True)
            ]
            done += sum(verdict.applied for verdict in queue.apply(acts))
    return done


def _delete(queue: Queue[Any, Any], ids: list[str], by: str) -> int:
    if not ids:
        return 0
    dead = Filter(states=frozenset({State.FAILED}), ids=frozenset(ids))
    return queue.store.purge(queue.key, dead, len(ids), by)


def _add(groups: dict[str, ErrorGroup], record: Record) -> None:
    name, at = fingerprint(record), record.finished_at or record.created_at
    found = groups.get(name)
    if found is None:
        found = groups[name] = ErrorGroup(
            fingerprint=name,
            type="",
            message="",
            count=0,
            kinds=[],
            first_at=at,
            last_at=at,
            sample="",
            traceback="",
        )
    found.count += 1
    found.first_at = min(found.first_at, at)
    if record.kind not in found.kinds:
        found.kinds.append(record.kind)
    if at >= found.last_at or not found.sample:
        _show(found, record, at)


def _show(found: ErrorGroup, record: Record, at: float) -> None:
    failure = record.failure
    found.last_at, found.sample = at, record.id
    if failure is not None:
        found.type, found.message = failure.type, failure.message
        found.traceback = failure.traceback[-LONGEST_SAMPLE:]
