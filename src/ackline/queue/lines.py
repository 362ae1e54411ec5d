"""Jobs as JSON lines, which an export writes and an import reads."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from ackline.codec import is_json
from ackline.errors import InvalidPayload, PayloadTooLarge
from ackline.job import Draft, Failure, Record, State
from ackline.limits import require_name
from ackline.retry import Backoff

if TYPE_CHECKING:
    from ackline.queue.base import QueueBase
    from ackline.queue.drafting import CallOptions


class Past(msgspec.Struct, omit_defaults=True, kw_only=True):
    """What a line says about a job's life so far; an import ignores it."""

    queue: str
    state: State
    attempts: int = 0
    created_at: float
    started_at: float | None = None
    finished_at: float | None = None
    worker: str = ""
    progress: msgspec.Raw | None = None
    result: msgspec.Raw | None = None
    history: tuple[Failure, ...] = ()


class Line(Past, omit_defaults=True, kw_only=True):
    """One job: all that it takes to enqueue it again, and what became of it."""

    id: str
    kind: str
    payload: msgspec.Raw
    """As stored; if that is not JSON, an object with its `base64`, and `codec` names the serde."""
    priority: int
    run_at: float | None = None
    max_attempts: int | None = None
    backoff: Backoff | None = None
    lease: float | None = None
    timeout: float | None = None
    result_ttl: float | None = None
    keys_if_undelivered: tuple[tuple[str, ...], ...] = ()
    callback_url: str | None = None
    group: str | None = None
    headers: Mapping[str, str] = {}
    trace: str | None = None
    codec: str | None = None


PAST = frozenset(Past.__struct_fields__)

_encode = msgspec.json.Encoder().encode
_read_packed = msgspec.json.Decoder(dict[str, str]).decode


def line_of(record: Record, queue: str) -> bytes:
    """A job as a line, including the newline."""
    codec, options = record.options.codec, msgspec.structs.asdict(record.options)
    del options["request"]  # the request is not sent again to where the line is imported
    line = Line(
        queue=queue,
        state=record.state,
        attempts=record.attempts,
        created_at=record.created_at,
        started_at=record.started_at,
        finished_at=record.finished_at,
        worker=record.worker,
        progress=_raw_result(record.progress, codec),
        result=_raw_result(record.result, codec),
        history=record.history,
        id=record.id,
        kind=record.kind,
        payload=_raw(record.payload, codec) or msgspec.Raw(b"null"),
        priority=record.priority,
        run_at=record.run_at,
        **options,
    )
    return _encode(line) + b"\n"


def _raw(data: bytes | None, codec: str | None) -> msgspec.Raw | None:
    if data is None or codec is None:
        return None if data is None else msgspec.Raw(data)
    return _packed(data)


def _raw_result(data: bytes | None, codec: str | None) -> msgspec.Raw | None:
    """Its serde is not recorded, and may be another one than that of a payload in JSON."""
    if codec is None and data is not None and not is_json(data):
        return _packed(data)
    return _raw(data, codec)


def _packed(data: bytes) -> msgspec.Raw:
    return msgspec.Raw(_encode({"base64": base64.b64encode(data).decode()}))


def draft_of(
    queue: QueueBase[Any, Any], payload: bytes, codec: str | None, options: CallOptions
) -> Draft:
    """A draft whose payload stays as the line has it."""
    data = payload if codec is None else _unpacked(payload)
    most = queue.serdes.max_payload
    if len(data) > most:
        raise PayloadTooLarge("payload", len(data), most)
    if codec is None:
        _require_json(data)
    id = options.get("id")
    draft = queue.drafter.draft(None, {**options, "id": None})  # type: ignore[typeddict-item]
    if id is not None:
        # Any id that a job has had: also one that was made of an Idempotency-Key.
        require_name("id", id)
        draft = msgspec.structs.replace(draft, id=id, surely_new=False)
    kept = msgspec.structs.replace(draft.options, codec=codec)
    return msgspec.structs.replace(draft, payload=data, options=kept)


def _require_json(payload: bytes) -> None:
    try:
        msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidPayload(f"the payload is not JSON that can be read again: {error}") from error


def _unpacked(payload: bytes) -> bytes:
    try:
        return base64.b64decode(_read_packed(payload)["base64"], validate=True)
    except (msgspec.DecodeError, KeyError, binascii.Error) as error:
        raise InvalidPayload('with a `codec`, the payload is its bytes: {"base64": "…"}') from error
