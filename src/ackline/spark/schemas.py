"""The columns of every table. A change to them raises `SCHEMA_VERSION`."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import TYPE_CHECKING

from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

if TYPE_CHECKING:
    import pyarrow

SCHEMA_VERSION = 2
"""The version of the columns below. Stored tables record the version they were written with."""

_TEXT, _BYTES, _TIME, _FLAG = StringType(), BinaryType(), TimestampType(), BooleanType()
_NUMBER, _TOKEN = IntegerType(), LongType()
_HEADERS = MapType(_TEXT, _TEXT)


def _schema(columns: dict[str, DataType], optional: set[str]) -> StructType:
    """Columns that are never null are declared so: otherwise Spark checks each of their values."""
    schema = StructType()
    for name, kind in columns.items():
        schema.add(name, kind, nullable=name in optional)
    return schema


JOBS = _schema(
    {
        "tenant": _TEXT,
        "queue": _TEXT,
        "id": _TEXT,
        "kind": _TEXT,
        "state": _TEXT,
        "priority": _NUMBER,
        "payload": _BYTES,
        "codec": _TEXT,
        "attempts": _NUMBER,
        "created_at": _TIME,
        "token": _TOKEN,
        "worker": _TEXT,
        "cancel_requested": _FLAG,
        "started_at": _TIME,
        "deadline": _TIME,
        "run_at": _TIME,
        "finished_at": _TIME,
        "expires_at": _TIME,
        "max_attempts": _NUMBER,
        "group": _TEXT,
        "headers": _HEADERS,
        "trace": _TEXT,
        "result": _BYTES,
        "error_type": _TEXT,
        "error_message": _TEXT,
        "error_traceback": _TEXT,
    },
    optional={
        "started_at",
        "deadline",
        "run_at",
        "finished_at",
        "expires_at",
        "max_attempts",
        "group",
        "headers",
        "trace",
        "result",
        "error_type",
        "error_message",
        "error_traceback",
    },
)
"""A job as it stands: what reading `jobs` and `dlq` gives.

`max_attempts` is the job's own; if it is null, that of its kind or its queue applies.
"""

EVENTS = _schema(
    {
        "tenant": _TEXT,
        "queue": _TEXT,
        "cursor": _TEXT,
        "place": _TEXT,
        "at": _TIME,
        "act": _TEXT,
        "id": _TEXT,
        "kind": _TEXT,
        "source": _TEXT,
        "to": _TEXT,
        "attempt": _NUMBER,
        "token": _TOKEN,
        "worker": _TEXT,
        "note": _TEXT,
        "by": _TEXT,
        "priority": _NUMBER,
        "moved_from": _TEXT,
        "moved_to": _TEXT,
    },
    optional={"source", "to", "priority", "moved_from", "moved_to"},
)
"""One entry of the journal. `place` sorts in its order; `cursor` is what readers pass on.

`id` is empty for an act on the whole queue. `priority` is set where a job gets one: when it is
enqueued, edited, redriven, or comes from another queue. `moved_from` and `moved_to` are the queues
that a moved job has left and entered; both journals have both.
"""

CLAIMS = _schema(
    {
        "tenant": _TEXT,
        "queue": _TEXT,
        "id": _TEXT,
        "kind": _TEXT,
        "priority": _NUMBER,
        "payload": _BYTES,
        "codec": _TEXT,
        "attempts": _NUMBER,
        "created_at": _TIME,
        "token": _TOKEN,
        "group": _TEXT,
        "headers": _HEADERS,
        "trace": _TEXT,
    },
    optional={"group", "headers", "trace"},
)
"""A claimed job: what streaming `jobs` gives. `token` is the lease that its outcome must name."""


def jobs_schema(names: Collection[str] | None) -> StructType:
    """The columns of `JOBS` that have these names; None is all."""
    return StructType([field for field in JOBS if names is None or field.name in names])


@cache
def arrow_schema(name: str) -> pyarrow.Schema:
    """The columns of a table as an Arrow schema."""
    return to_arrow_schema(SCHEMAS[name], timezone="UTC")


SCHEMAS = {"jobs": JOBS, "events": EVENTS, "claims": CLAIMS}
