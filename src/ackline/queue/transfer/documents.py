"""Jobs and events as JSON: the same for responses, commands and exports."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from ackline.core.codec import is_json
from ackline.core.events import Act, Event, RecoveredBy
from ackline.core.job import DlqReason, Failure, Record, State
from ackline.core.retry import Backoff

JSON_NULL = msgspec.Raw(b"null")

T = TypeVar("T", bound=msgspec.Struct)


def raw_json(data: bytes | None, codec: str | None = None) -> msgspec.Raw:
    """A payload as JSON, not decoded; anything else becomes base64."""
    if data is None or (codec is None and not data):
        return JSON_NULL  # nothing, or not for the caller
    if codec is None:
        return msgspec.Raw(data)
    try:
        if codec == "msgpack":
            return msgspec.Raw(msgspec.json.encode(msgspec.msgpack.decode(data)))
    except (msgspec.DecodeError, TypeError, ValueError):
        pass
    return _base64(data, codec)


def raw_or_base64(data: bytes) -> msgspec.Raw:
    """Bytes of unknown format as JSON."""
    return msgspec.Raw(data) if is_json(data) else _base64(data, "unknown")


def raw_result_json(data: bytes | None, codec: str | None) -> msgspec.Raw:
    """A result or progress as JSON; `codec` is that of the job's payload.

    The codec of a result is not recorded, and may differ from that of a JSON payload.
    """
    return raw_json(data, codec) if data is None or codec is not None else raw_or_base64(data)


def _base64(data: bytes, codec: str) -> msgspec.Raw:
    encoded = {"base64": base64.b64encode(data).decode(), "codec": codec}
    return msgspec.Raw(msgspec.json.encode(encoded))


def codec_of(record: Record) -> str:
    """The codec of a job's payload."""
    return record.options.codec or "json"


def payload_json(record: Record) -> msgspec.Raw:
    """A job's payload as JSON."""
    return raw_json(record.payload, record.options.codec)


def result_json(record: Record) -> msgspec.Raw:
    """A job's result as JSON."""
    return raw_result_json(record.result, record.options.codec)


class Attempt(msgspec.Struct):
    """An attempt that did not complete."""

    act: str
    attempt: int
    at: float
    worker: str
    started_at: float
    type: str
    message: str
    traceback: str
    dlq_reason: DlqReason | None = None
    """Why the job then went to the DLQ; null if it did not."""


class EventDocument(msgspec.Struct):
    """One entry of the journal."""

    cursor: str
    at: float
    queue: str
    act: Act
    id: str
    kind: str
    source: State | None
    to: State | None
    attempt: int
    worker: str
    note: str
    by: str
    moved_from: str | None
    """The queue that a moved job came from; the events of both queues name both."""
    moved_to: str | None
    recovered_by: RecoveredBy | None
    """What expired a lease."""


class JobDocument(msgspec.Struct, kw_only=True):
    """Everything about one job; times are in seconds since 1970, durations in seconds."""

    queue: str
    id: str
    kind: str
    state: State
    payload: msgspec.Raw
    codec: str
    """What wrote the payload: `json`, `msgpack`, or the name of a serde of the user's own."""
    priority: int
    attempts: int
    created_at: float
    run_at: float | None
    started_at: float | None
    deadline: float | None
    finished_at: float | None
    expires_at: float | None
    worker: str
    cancel_requested: bool
    progress: msgspec.Raw
    result: msgspec.Raw
    error: str | None
    history: list[Attempt]
    max_attempts: int | None
    backoff: Backoff | None
    lease: float | None
    timeout: float | None
    result_ttl: float | None
    group: str | None
    headers: dict[str, str]
    tags: list[str]
    keys_if_undelivered: list[tuple[str, ...]]
    callback_url: str | None
    trace: str | None
    timeline: list[EventDocument] | UnsetType = UNSET
    timeline_complete: bool | UnsetType = UNSET


def job_document(
    record: Record,
    queue: str,
    document_type: type[JobDocument] = JobDocument,
    *,
    exact: bool = False,
) -> JobDocument:
    """The document of a job.

    If it is `exact`, a payload that is not JSON is included as base64, so that it can be stored
    again; otherwise it is converted to JSON, if that is possible, so that people can read it.
    """
    options = record.options
    return document_type(
        queue=queue,
        id=record.id,
        kind=record.kind,
        state=record.state,
        payload=_exact_payload(record) if exact else payload_json(record),
        codec=codec_of(record),
        priority=record.priority,
        attempts=record.attempts,
        created_at=record.created_at,
        run_at=record.run_at,
        started_at=record.started_at,
        deadline=record.deadline,
        finished_at=record.finished_at,
        expires_at=record.expires_at,
        worker=record.worker,
        cancel_requested=record.cancel_requested,
        progress=raw_result_json(record.progress, options.codec),
        result=result_json(record),
        error=error_text(record),
        history=[attempt_document(ended) for ended in record.history],
        max_attempts=options.max_attempts,
        backoff=options.backoff,
        lease=options.lease,
        timeout=options.timeout,
        result_ttl=options.result_ttl,
        group=options.group,
        headers=dict(options.headers),
        tags=list(options.tags),
        keys_if_undelivered=list(options.keys_if_undelivered),
        callback_url=options.callback_url,
        trace=options.trace,
    )


def _exact_payload(record: Record) -> msgspec.Raw:
    codec = record.options.codec
    return msgspec.Raw(record.payload) if codec is None else _base64(record.payload, codec)


def error_text(record: Record) -> str | None:
    """The last error, in one line or more."""
    failure = record.failure
    return f"{failure.type}: {failure.message}" if failure is not None else None


def attempt_document(failure: Failure) -> Attempt:
    """How one attempt ended."""
    return copy_fields(Attempt, (failure,))


def event_document(event: Event) -> EventDocument:
    """One entry of the journal."""
    return copy_fields(EventDocument, (event,), queue=event.queue.name)


def copy_fields(document_type: type[T], sources: Sequence[msgspec.Struct], **given: Any) -> T:
    """A document of the given fields, and of the sources' fields with the same names."""
    for source in sources:
        for name in source.__struct_fields__:
            if name in document_type.__struct_fields__:
                given.setdefault(name, getattr(source, name))
    return document_type(**given)
