"""Groups the DLQ by error: errors with the same fingerprint are one group."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import msgspec

from ackline.core import error_fingerprint
from ackline.core.job import Record
from ackline.queue import Queue
from ackline.stores.contract import Filter

PAGE = 500
TIME_LIMIT = 2.0
"""Seconds to read a large DLQ; the answer says whether that was all of it."""

MAX_GROUPS = 200

MAX_GROUPS_IN_MEMORY = 1000
"""Maximum number of groups while reading; the largest of them are returned."""

MAX_TRACEBACK = 20_000
"""Maximum characters of a sample's traceback."""


class ErrorGroup(msgspec.Struct, kw_only=True):
    """Failed jobs with similar errors."""

    fingerprint: str
    type: str
    message: str
    """The common message; parts that differ are left out, as in `no order '…'`."""
    count: int
    kinds: list[str]
    first_at: float
    last_at: float
    sample: str
    """The id of the last of these jobs."""
    traceback: str


def fingerprint_of(record: Record) -> str:
    """A fingerprint that is the same for failed jobs with similar errors."""
    failure = record.failure
    if failure is None:
        return error_fingerprint.fingerprint("", "no error was noted", "")
    return error_fingerprint.fingerprint(failure.type, failure.message, failure.traceback)


def group_errors(queue: Queue[Any, Any], job_filter: Filter) -> tuple[list[ErrorGroup], bool]:
    """The groups, the largest first, and whether the whole DLQ was read."""
    groups: dict[str, _GroupBuilder] = {}
    until = time.monotonic() + TIME_LIMIT
    complete = True
    for page in _pages(queue, job_filter):
        for record in page:
            fingerprint = fingerprint_of(record)
            if fingerprint not in groups:
                if len(groups) == MAX_GROUPS_IN_MEMORY:
                    complete = False
                    continue
                groups[fingerprint] = _GroupBuilder(fingerprint, record)
            groups[fingerprint].add(record)
        if time.monotonic() > until:
            complete = False
            break
    largest = sorted((one.finished() for one in groups.values()), key=lambda group: -group.count)
    return largest[:MAX_GROUPS], complete and len(largest) <= MAX_GROUPS


def _pages(queue: Queue[Any, Any], job_filter: Filter) -> Iterator[list[Record]]:
    """The failed jobs that match, page by page."""
    cursor: str | None = None
    while True:
        page = queue.store.page(queue.key, job_filter, cursor, PAGE)
        yield page.jobs
        cursor = page.cursor
        if cursor is None:
            return


class _GroupBuilder:
    """Builds a group, job by job."""

    def __init__(self, fingerprint: str, first: Record) -> None:
        failure = first.failure
        self._message = error_fingerprint.CommonMessage(
            failure.message if failure is not None else ""
        )
        at = _failed_at(first)
        self._group = ErrorGroup(
            fingerprint=fingerprint,
            type=failure.type if failure is not None else "",
            message="",
            count=0,
            kinds=[],
            first_at=at,
            last_at=at,
            sample=first.id,
            traceback="",
        )

    def add(self, record: Record) -> None:
        group, at = self._group, _failed_at(record)
        group.count += 1
        group.first_at = min(group.first_at, at)
        if record.kind not in group.kinds:
            group.kinds.append(record.kind)
        if record.failure is not None:
            self._message.add(record.failure.message)
        if at >= group.last_at:
            group.last_at, group.sample = at, record.id
            if record.failure is not None:
                group.traceback = record.failure.traceback[-MAX_TRACEBACK:]

    def finished(self) -> ErrorGroup:
        self._group.message = str(self._message)
        return self._group


def _failed_at(record: Record) -> float:
    return record.finished_at or record.created_at
