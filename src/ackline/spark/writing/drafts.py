"""Makes jobs of rows, or says why a row cannot be a job."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, cast

import msgspec
import pyarrow

from ackline.core.errors import InvalidJob, InvalidName, InvalidOption, InvalidPayload
from ackline.core.job import Draft
from ackline.queue import Queue
from ackline.queue.drafts.builder import CallOptions
from ackline.queues import Queues
from ackline.spark.options import JobsWriteOptions
from ackline.spark.writing.columns import ColumnRoles
from ackline.spark.writing.json_columns import validated_json
from ackline.spark.writing.rejected_rows import RejectedRow, iterate_rows
from ackline.spark.writing.utc_timestamps import timestamps_to_utc

_SECONDS = frozenset({"delay", "run_at", "lease", "timeout", "result_ttl"})


class DraftBuilder:
    """Makes drafts of the rows of one task."""

    def __init__(self, queues: Queues, options: JobsWriteOptions, columns: ColumnRoles) -> None:
        self._queues = queues
        self._columns = columns
        self._options = options
        names = ("kind", "priority", "delay", "max_attempts")
        self._fixed = {
            name: value for name in names if (value := getattr(options, name)) is not None
        }
        """Options that apply to all jobs and override their columns."""

    def build(self, batch: pyarrow.RecordBatch) -> Iterator[tuple[str, Draft] | RejectedRow]:
        """For each row its queue and draft, or the rejected row."""
        for row in iterate_rows(timestamps_to_utc(batch)):
            if isinstance(row, RejectedRow):
                yield row
                continue
            try:
                yield self._build(row)
            except (InvalidJob, TypeError, ValueError, OverflowError, RecursionError) as error:
                yield RejectedRow.of(row, error)

    def _build(self, row: dict[str, Any]) -> tuple[str, Draft]:
        name = self._options.queue or row.get("queue")
        if name is None:
            raise InvalidName("the row names no queue")
        queue = self._queues[name]
        call_options = {
            column: _option_value(column, row[column])
            for column in self._columns.of_job
            if row[column] is not None and column != "queue"
        } | self._fixed
        if self._options.id_from == "column" and "id" not in call_options:
            raise InvalidName("the row has no id")
        payload = self._payload(queue, row)
        if self._options.id_from == "content":
            call_options["id"] = content_id(name, str(call_options.get("kind", "")), payload)
        draft = queue.draft_builder.draft(None, cast(CallOptions, call_options))
        return name, msgspec.structs.replace(draft, payload=payload)

    def _payload(self, queue: Queue[Any, Any], row: dict[str, Any]) -> bytes:
        if self._columns.payload is None:
            return queue.serdes.encode_payload({name: row[name] for name in self._columns.fields})
        value = row[self._columns.payload]
        if self._options.payload_as == "value" or not isinstance(value, (str, bytes)):
            if value is None and self._options.payload_as == "json":
                raise InvalidPayload("the row has no payload")
            return queue.serdes.encode_payload(value)
        # As `Raw`, only its size is checked, and it is not encoded again.
        return queue.serdes.encode_payload(msgspec.Raw(validated_json("payload", value)))


def content_id(queue: str, kind: str, payload: bytes) -> str:
    """An id that equal jobs share."""
    parts = hashlib.sha256()
    for part in (queue.encode(), kind.encode(), payload):
        # With its length, so that different parts never give the same bytes.
        parts.update(len(part).to_bytes(8, "big") + part)
    return parts.hexdigest()


def _option_value(column: str, value: Any) -> Any:
    if isinstance(value, Decimal):
        value = float(value)
    if column == "id":
        return str(value)
    if isinstance(value, list) and None in value:
        raise InvalidOption(f"{column} has a null in its list: leave it out")
    if column == "backoff" and isinstance(value, list):
        return [float(one) for one in value]
    return float(value) if column in _SECONDS and isinstance(value, int) else value
