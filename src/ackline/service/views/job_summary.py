"""Summaries of jobs: enough for a list, however large the payloads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from ackline.core.job import Record, State
from ackline.core.lifecycle import rank
from ackline.queue import Queue
from ackline.queue.transfer.documents import codec_of, copy_fields, error_text, payload_json

PREVIEW = 160
"""Maximum characters of a payload or an error."""


class JobSummary(msgspec.Struct, kw_only=True):
    """The summary of a job; times are in seconds since 1970."""

    id: str
    kind: str
    state: State
    priority: int
    attempts: int
    max_attempts: int
    created_at: float
    run_at: float | None
    started_at: float | None
    deadline: float | None
    finished_at: float | None
    worker: str
    cancel_requested: bool
    error: str | None
    tags: list[str]
    preview: str
    """The start of the payload, as JSON."""
    codec: str
    size: int
    """Size of the payload in bytes."""
    rank: float | None
    """The position of a queued job by priority and age: the lowest is claimed first. An estimate
    for jobs that were queued again."""


def summarize(queue: Queue[Any, Any], records: Iterable[Record]) -> list[JobSummary]:
    """Summaries of jobs."""
    ageing = queue.policies.settings().ageing
    return [_summary(record, queue.policies.of(record).max_attempts, ageing) for record in records]


def _summary(record: Record, max_attempts: int, ageing: float) -> JobSummary:
    error = error_text(record)
    return copy_fields(
        JobSummary,
        (record,),
        max_attempts=max_attempts,
        error=error[:PREVIEW] if error is not None else None,
        tags=list(record.options.tags),
        preview=_truncated(bytes(payload_json(record))),
        codec=codec_of(record),
        size=len(record.payload),
        rank=rank(record.created_at, record.priority, ageing)
        if record.state is State.QUEUED
        else None,
    )


def _truncated(text: bytes) -> str:
    # The cut may be in the middle of a character.
    return text[: PREVIEW * 4].decode(errors="ignore")[:PREVIEW]
