"""Jobs as Arrow batches."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any

import pyarrow
import pyarrow.compute

from ackline.core.events import read_cursor
from ackline.core.job import Options, QueueKey, Record
from ackline.spark import schemas

TIMESTAMP = pyarrow.timestamp("us", tz="UTC")


def utc_datetime(seconds: float | None) -> datetime | None:
    """A store's time as Spark represents it."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def cursor_sort_key(cursor: str) -> str:
    """A cursor as text that sorts in the order of the journal.

    >>> cursor_sort_key("9.10") < cursor_sort_key("10.2")
    True
    """
    batch, used = read_cursor(cursor)
    return f"{batch:032x}{used:08x}"


def jobs_batch(
    key: QueueKey, records: Sequence[Record], names: Collection[str] | None = None
) -> pyarrow.RecordBatch:
    """Jobs with the columns of `schemas.JOBS`, or those of them that are named."""
    return _batch(key, records, schemas.arrow_schema("jobs"), names)


def claims_batch(key: QueueKey, records: Sequence[Record]) -> pyarrow.RecordBatch:
    """Claimed jobs with the columns of `schemas.CLAIMS`."""
    return _batch(key, records, schemas.arrow_schema("claims"), None)


def _batch(
    key: QueueKey, records: Sequence[Record], schema: pyarrow.Schema, names: Collection[str] | None
) -> pyarrow.RecordBatch:
    fields = [field for field in schema if names is None or field.name in names]
    arrays = [_column(key, records, field) for field in fields]
    return pyarrow.RecordBatch.from_arrays(arrays, schema=pyarrow.schema(fields))


def _column(key: QueueKey, records: Sequence[Record], field: pyarrow.Field) -> pyarrow.Array:
    of_queue = {"tenant": key.tenant, "queue": key.name}
    if field.name in of_queue:
        return pyarrow.repeat(pyarrow.scalar(of_queue[field.name], field.type), len(records))
    values = list(map(_GETTERS[field.name], records))
    return timestamp_array(values) if field.type == TIMESTAMP else pyarrow.array(values, field.type)


def _own_attempts(options: Options) -> int | None:
    if options.max_attempts is None and options.backoff is not None:
        return options.backoff.attempts
    return options.max_attempts


def timestamp_array(seconds: Iterable[float | None]) -> pyarrow.Array:
    """A store's times as a column."""
    # As whole microseconds: making datetimes of them would take most of the run time.
    floats = pyarrow.array(seconds, pyarrow.float64())
    micros = pyarrow.compute.round(pyarrow.compute.multiply(floats, 1e6))
    # Infinity, meaning never, becomes null: a column of times cannot hold it.
    finite = pyarrow.compute.is_finite(micros)
    micros = pyarrow.compute.if_else(finite, micros, pyarrow.scalar(None, pyarrow.float64()))
    return micros.cast(pyarrow.int64()).cast(TIMESTAMP)


def _error(name: str) -> Callable[[Record], str | None]:
    def of(record: Record) -> str | None:
        # Most jobs have never failed.
        return getattr(record.failure, name, None) if record.history else None

    return of


_GETTERS: Mapping[str, Callable[[Record], Any]] = {
    **{
        name: attrgetter(name)
        for name in (
            *("id", "kind", "priority", "payload", "attempts", "created_at", "token", "worker"),
            *("cancel_requested", "started_at", "deadline", "run_at", "finished_at", "expires_at"),
            "result",
        )
    },
    "state": attrgetter("state.value"),
    "codec": lambda record: record.options.codec or "json",
    "group": attrgetter("options.group"),
    "headers": lambda record: list(record.options.headers.items()),
    "trace": attrgetter("options.trace"),
    "max_attempts": lambda record: _own_attempts(record.options),
    "error_type": _error("type"),
    "error_message": _error("message"),
    "error_traceback": _error("traceback"),
}
"""The value of a job for each column, except those that all jobs of a queue share."""
