"""Jobs in short: enough to choose one from a list, however large its payload."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from ackline.core.job import Record, State
from ackline.core.lifecycle import rank
from ackline.queue import Queue
from ackline.queue.transfer.documents import codec_of, copy_fields, error_text, payload_json

PREVIEW = 160
"""Characters of a payload or an error that are shown."""


class JobSummary(msgspec.Struct, kw_only=True):
    """A job in short; times are in seconds since 1970."""

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
    preview: str
    """The beginning of the payload, as JSON."""
    codec: str
    size: int
    """Bytes of the payload."""
    rank: float | None
    """Where a queued job stands in line, by the ageing of its queue: the lowest is first. Of a job
    that came back into line it is an estimate."""


def summarize(queue: Queue[Any, Any], records: Iterable[Record]) -> list[JobSummary]:
    """Jobs in short."""
    ageing = queue.policies.settings().ageing
    return [_summary(record, queue.policies.of(record).max_attempts, ageing) for record in records]


def _summary(record: Record, max_attempts: int, ageing: float) -> JobSummary:
    error = error_text(record)
    return copy_fields(
        JobSummary,
        (record,),
        max_attempts=max_attempts,
        error=error[:PREVIEW] if error is not None else None,
        preview=_truncated(bytes(payload_json(record))),
        codec=codec_of(record),
        size=len(record.payload),
        rank=rank(record.created_at, record.priority, ageing)
        if record.state is State.QUEUED
        else None,
    )


def _truncated(text: bytes) -> str:
    # A character may be cut in the middle.
    return text[: PREVIEW * 4].decode(errors="ignore")[:PREVIEW]
