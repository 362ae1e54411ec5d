"""Jobs as JSON lines, which an export writes and an import reads."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, get_args

import msgspec
from msgspec.structs import fields

from ackline.errors import InvalidPayload, PayloadTooLarge
from ackline.job import Draft, Record
from ackline.limits import require_name
from ackline.queue.documents import NULL, JobDocument, job_document
from ackline.queue.drafting import EnqueueOptions

if TYPE_CHECKING:
    from ackline.queue.base import QueueBase
    from ackline.queue.drafting import CallOptions


PAST = frozenset(JobDocument.__struct_fields__) - {
    "payload",
    "codec",
    *EnqueueOptions.__annotations__,
}
"""What a line says about a job's life so far; an import ignores it."""

_encode = msgspec.json.Encoder().encode
_read_packed = msgspec.json.Decoder(dict[str, str]).decode


def line_of(record: Record, queue: str) -> bytes:
    """A job's document as a line, without what is usual or empty; including the newline."""
    return _encode(job_document(record, queue, _JobLine, exact=True)) + b"\n"


_USUAL: Mapping[str, Any] = {
    **{field.name: None for field in fields(JobDocument) if type(None) in get_args(field.type)},
    "codec": "json",
    "attempts": 0,
    "worker": "",
    "cancel_requested": False,
    "progress": NULL,
    "result": NULL,
    "history": msgspec.field(default_factory=list),
    "keys_if_undelivered": msgspec.field(default_factory=list),
    "headers": msgspec.field(default_factory=dict),
}

_JobLine: type[Any] = msgspec.defstruct(
    "JobLine",
    [(name, JobDocument.__annotations__[name], usual) for name, usual in _USUAL.items()],
    bases=(JobDocument,),
    kw_only=True,
    omit_defaults=True,
)
"""The document whose usual or empty fields are left out."""


def draft_of(
    queue: QueueBase[Any, Any], payload: bytes, codec: str | None, options: CallOptions
) -> Draft:
    """A draft whose payload stays as the line has it."""
    codec = None if codec == "json" else codec
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
