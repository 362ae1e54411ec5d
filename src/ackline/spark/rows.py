"""Jobs as Arrow batches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow
import pyarrow.compute

from ackline.events import read_cursor
from ackline.job import Options, QueueKey, Record
from ackline.spark import schemas

MICROSECONDS = pyarrow.timestamp("us", tz="UTC")


def moment(seconds: float | None) -> datetime | None:
    """A store's time as Spark represents it."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def place_of(cursor: str) -> str:
    """A cursor as text that sorts in the order of the journal.

    >>> place_of("9.10") < place_of("10.2")
    True
    """
    batch, used = read_cursor(cursor)
    return f"{batch:032x}{used:08x}"


def jobs_batch(key: QueueKey, records: Sequence[Record]) -> pyarrow.RecordBatch:
    """Jobs with the columns of `schemas.JOBS`."""
    failures = [record.failure for record in records]
    columns = _shared(key, records) | {
        "state": [record.state.value for record in records],
        "worker": [record.worker for record in records],
        "cancel_requested": [record.cancel_requested for record in records],
        "started_at": times(record.started_at for record in records),
        "deadline": times(record.deadline for record in records),
        "run_at": times(record.run_at for record in records),
        "finished_at": times(record.finished_at for record in records),
        "expires_at": times(record.expires_at for record in records),
        "max_attempts": [_own_attempts(record.options) for record in records],
        "result": [record.result for record in records],
        "error_type": [failure and failure.type for failure in failures],
        "error_message": [failure and failure.message for failure in failures],
        "error_traceback": [failure and failure.traceback for failure in failures],
    }
    return _batch("jobs", columns)


def claims_batch(key: QueueKey, records: Sequence[Record]) -> pyarrow.RecordBatch:
    """Claimed jobs with the columns of `schemas.CLAIMS`."""
    return _batch("claims", _shared(key, records))


def _shared(key: QueueKey, records: Sequence[Record]) -> dict[str, Any]:
    return {
        "tenant": [key.tenant] * len(records),
        "queue": [key.name] * len(records),
        "id": [record.id for record in records],
        "kind": [record.kind for record in records],
        "priority": [record.priority for record in records],
        "payload": [record.payload for record in records],
        "codec": [record.options.codec or "json" for record in records],
        "attempts": [record.attempts for record in records],
        "created_at": times(record.created_at for record in records),
        "token": [record.token for record in records],
        "group": [record.options.group for record in records],
        "headers": [list(record.options.headers.items()) for record in records],
        "trace": [record.options.trace for record in records],
    }


def _own_attempts(options: Options) -> int | None:
    if options.max_attempts is not None or options.backoff is None:
        return options.max_attempts
    # A schedule lists the waits between attempts, so it also says how many there are.
    return len(options.backoff.delays) + 1 if options.backoff.delays else None


def times(seconds: Iterable[float | None]) -> pyarrow.Array:
    """A store's times as a column."""
    # As whole microseconds: making datetimes of them would take most of the run time.
    exact = pyarrow.array(seconds, pyarrow.float64())
    micros = pyarrow.compute.round(pyarrow.compute.multiply(exact, 1e6))
    # Infinity, meaning never, becomes null: a column of times cannot hold it.
    finite = pyarrow.compute.is_finite(micros)
    micros = pyarrow.compute.if_else(finite, micros, pyarrow.scalar(None, pyarrow.float64()))
    return micros.cast(pyarrow.int64()).cast(MICROSECONDS)


def _batch(name: str, columns: dict[str, Any]) -> pyarrow.RecordBatch:
    schema = schemas.arrow(name)
    arrays = [
        column if isinstance(column, pyarrow.Array) else pyarrow.array(column, field.type)
        for field, column in ((field, columns[field.name]) for field in schema)
    ]
    return pyarrow.RecordBatch.from_arrays(arrays, schema=schema)
