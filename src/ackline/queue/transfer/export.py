"""Jobs as JSON lines, as an import reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import msgspec
from msgspec.structs import fields

from ackline.core.job import Record
from ackline.queue.transfer.documents import JSON_NULL, JobDocument, job_document

_encode = msgspec.json.Encoder().encode


def encode_line(record: Record, queue: str) -> bytes:
    """A job's document as a line, without default or empty fields; including the newline."""
    return _encode(job_document(record, queue, _Line, exact=True)) + b"\n"


_DEFAULTS: Mapping[str, Any] = {
    **{field.name: None for field in fields(JobDocument) if type(None) in get_args(field.type)},
    "codec": "json",
    "attempts": 0,
    "worker": "",
    "cancel_requested": False,
    "progress": JSON_NULL,
    "result": JSON_NULL,
    "history": msgspec.field(default_factory=list),
    "keys_if_undelivered": msgspec.field(default_factory=list),
    "headers": msgspec.field(default_factory=dict),
    "tags": msgspec.field(default_factory=list),
}

_Line: type[Any] = msgspec.defstruct(
    "Line",
    [(name, JobDocument.__annotations__[name], default) for name, default in _DEFAULTS.items()],
    bases=(JobDocument,),
    kw_only=True,
    omit_defaults=True,
)
"""The document whose default or empty fields are left out."""
