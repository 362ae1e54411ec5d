"""Jobs from JSON lines, in batches; the caller reads the lines and stores the batches."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from ackline.core.errors import InvalidPayload, PayloadTooLarge
from ackline.core.job import Draft, State
from ackline.core.limits import require_name
from ackline.queue.drafts.batches import BATCH_BYTES, BATCH_JOBS, payload_size
from ackline.queue.drafts.builder import CallOptions, EnqueueOptions
from ackline.queue.transfer.documents import JSON_NULL, JobDocument
from ackline.stores.contract import Receipt

if TYPE_CHECKING:
    from ackline.queue.base import QueueBase

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""Byte order mark, with which some editors start a file."""

IGNORED = frozenset(JobDocument.__struct_fields__) - {
    "payload",
    "codec",
    *EnqueueOptions.__annotations__,
}
"""Fields of an export that describe a job's history; an import ignores them."""

_FIELDS = [
    ("payload", msgspec.Raw, msgspec.Raw()),
    ("codec", str | None, None),
    *((name, msgspec.Raw, JSON_NULL) for name in sorted(IGNORED)),
]
_read_packed = msgspec.json.Decoder(dict[str, str]).decode


def line_decoder(options: type[msgspec.Struct]) -> msgspec.json.Decoder[Any]:
    """Reads lines as an export writes them, with a job's options as this struct has them."""
    line = msgspec.defstruct(
        "Line", _FIELDS, bases=(options,), kw_only=True, forbid_unknown_fields=True
    )
    return msgspec.json.Decoder(line)


def line_to_draft(queue: QueueBase[Any, Any], line: Any, options: CallOptions) -> Draft:
    """The job of a line, with these options and the payload exactly as the line has it."""
    codec = None if line.codec == "json" else line.codec
    payload = bytes(line.payload or JSON_NULL) if codec is None else _decode_packed(line.payload)
    max_payload = queue.serdes.max_payload
    if len(payload) > max_payload:
        raise PayloadTooLarge("payload", len(payload), max_payload)
    if codec is None:
        _require_json(payload)
    id = options.get("id")
    draft = queue.draft_builder.draft(None, {**options, "id": None})  # type: ignore[typeddict-item]
    if id is not None:
        # Any id that a job has had: also one that was made of an Idempotency-Key.
        require_name("id", id)
        draft = msgspec.structs.replace(draft, id=id, assume_new=False)
    stored = msgspec.structs.replace(draft.options, codec=codec)
    return msgspec.structs.replace(draft, payload=payload, options=stored)


def _require_json(payload: bytes) -> None:
    try:
        msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidPayload(f"the payload is not valid JSON: {error}") from error


def _decode_packed(payload: msgspec.Raw) -> bytes:
    try:
        return base64.b64decode(_read_packed(payload)["base64"], validate=True)
    except (msgspec.DecodeError, KeyError, binascii.Error) as error:
        raise InvalidPayload('with a `codec`, the payload is its bytes: {"base64": "…"}') from error


class ImportCounts(msgspec.Struct):
    """Counts of the lines so far."""

    lines: int = 0
    enqueued: int = 0
    duplicates: int = 0
    completed: int = 0


class Import:
    """Numbers the lines, groups their jobs into batches, and counts the results."""

    def __init__(self, counts: ImportCounts) -> None:
        self.counts = counts
        self.first = 0
        """The line of the first job of this batch."""
        self._drafts: list[Draft] = []
        self._size = 0

    @property
    def full(self) -> bool:
        """Whether the jobs that were added should be stored now."""
        return len(self._drafts) >= BATCH_JOBS or self._size >= BATCH_BYTES

    def next_line(self, line: bytes) -> bytes:
        """Count a line; returns what there is to read of it, which may be nothing."""
        self.counts.lines += 1
        return (line.removeprefix(BYTE_ORDER_MARK) if self.counts.lines == 1 else line).strip()

    def add(self, draft: Draft) -> None:
        """Add the job of this line to the batch."""
        if not self._drafts:
            self.first = self.counts.lines
        self._drafts.append(draft)
        self._size += payload_size(draft)

    def take(self) -> list[Draft]:
        """Remove and return the jobs of this batch, to be stored."""
        drafts, self._drafts, self._size = self._drafts, [], 0
        return drafts

    def count(self, receipts: Iterable[Receipt]) -> None:
        """Count the store's receipts."""
        for receipt in receipts:
            if receipt.accepted:
                self.counts.enqueued += 1
            elif receipt.state is State.COMPLETED:
                self.counts.completed += 1
            else:
                self.counts.duplicates += 1
