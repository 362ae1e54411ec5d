"""Jobs as answers show them."""

from __future__ import annotations

import base64

import msgspec
from msgspec import UNSET, UnsetType

from ackline.events import Act, Event
from ackline.job import Failure, Record, State

NULL = msgspec.Raw(b"null")


def raw(data: bytes | None, codec: str | None = None) -> msgspec.Raw:
    """A payload or result as JSON, not decoded; what is not JSON comes as base64."""
    if data is None:
        return NULL
    if codec is None:
        return msgspec.Raw(data)
    try:
        if codec == "msgpack":
            return msgspec.Raw(msgspec.json.encode(msgspec.msgpack.decode(data)))
    except (msgspec.DecodeError, TypeError, ValueError):
        pass
    return _base64(data, codec)


def raw_or_base64(data: bytes) -> msgspec.Raw:
    """Bytes of which nobody noted what they are."""
    try:
        msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _base64(data, "unknown")
    return msgspec.Raw(data)


def _base64(data: bytes, codec: str) -> msgspec.Raw:
    encoded = {"base64": base64.b64encode(data).decode(), "codec": codec}
    return msgspec.Raw(msgspec.json.encode(encoded))


def payload_of(record: Record) -> msgspec.Raw:
    """A job's payload as JSON."""
    return raw(record.payload, record.options.codec)


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


class JobDocument(msgspec.Struct, kw_only=True):
    """All about one job; times are in seconds since 1970, spans in seconds."""

    queue: str
    id: str
    kind: str
    state: State
    payload: msgspec.Raw
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
    lease: float | None
    timeout: float | None
    result_ttl: float | None
    group: str | None
    headers: dict[str, str]
    keys_if_undelivered: list[tuple[str, ...]]
    callback_url: str | None
    timeline: list[EventDocument] | UnsetType = UNSET
    timeline_complete: bool | UnsetType = UNSET


def job_document(record: Record, queue: str) -> JobDocument:
    """A job as it stands."""
    options, failure = record.options, record.failure
    return JobDocument(
        queue=queue,
        id=record.id,
        kind=record.kind,
        state=record.state,
        payload=payload_of(record),
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
        progress=raw(record.progress, options.codec),
        result=raw(record.result, options.codec),
        error=f"{failure.type}: {failure.message}" if failure is not None else None,
        history=[attempt_document(ended) for ended in record.history],
        max_attempts=options.max_attempts,
        lease=options.lease,
        timeout=options.timeout,
        result_ttl=options.result_ttl,
        group=options.group,
        headers=dict(options.headers),
        keys_if_undelivered=list(options.keys_if_undelivered),
        callback_url=options.callback_url,
    )


def attempt_document(ended: Failure) -> Attempt:
    """How one attempt ended."""
    return Attempt(*(getattr(ended, field) for field in Attempt.__struct_fields__))


def event_document(event: Event) -> EventDocument:
    """One entry of the journal."""
    fields = EventDocument.__struct_fields__
    values = {field: getattr(event, field) for field in fields if field != "queue"}
    return EventDocument(queue=event.queue.name, **values)
