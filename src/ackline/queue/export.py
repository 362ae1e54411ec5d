"""Jobs as JSON lines, as an import reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import msgspec
from msgspec.structs import fields

from ackline.job import Record
from ackline.queue.documents import NULL, JobDocument, job_document

_encode = msgspec.json.Encoder().encode


def line_of(record: Record, queue: str) -> bytes:
    """A job's document as a line, without what is usual or empty; including the newline."""
    return _encode(job_document(record, queue, _Line, exact=True)) + b"\n"


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

_Line: type[Any] = msgspec.defstruct(
    "Line",
    [(name, JobDocument.__annotations__[name], usual) for name, usual in _USUAL.items()],
    bases=(JobDocument,),
    kw_only=True,
    omit_defaults=True,
)
"""The document whose usual or empty fields are left out."""
