"""Files into jobs. Loaded twice, nothing is enqueued twice."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pyarrow
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from ackline.spark.bulk.files import BROKEN, Files
from ackline.spark.columns import Columns, columns_of_jobs
from ackline.spark.options import WriteJobs
from ackline.spark.place import Place
from ackline.spark.rejected import Rejected, Written
from ackline.spark.writer import enqueue_rows

SCHEMA = "written long, known long, row string, error string, reason string"

_ARROW = pyarrow.schema(
    [
        ("written", pyarrow.int64()),
        ("known", pyarrow.int64()),
        *((name, pyarrow.string()) for name in ("row", "error", "reason")),
    ]
)


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the rows of files."""

    written: int
    known: int
    """Rows whose id a job has already."""
    rejected: list[Rejected]


def load(files: Files, options: WriteJobs, place: Place) -> Loaded:
    """Enqueue each row; those that cannot be jobs come back with the reason."""
    columns = columns_of_jobs(files.rows.schema, options)
    told = files.rows.mapInArrow(
        lambda batches: enqueue_some(place, options, columns, batches), SCHEMA
    )
    rows = told.toArrow().to_pylist()
    return Loaded(
        written=sum(row["written"] for row in rows),
        known=sum(row["known"] for row in rows),
        rejected=[
            *(
                Rejected(row["row"], row["error"], row["reason"])
                for row in rows
                if row["reason"] is not None
            ),
            *_broken(files.broken, options.max_rejected),
        ],
    )


def enqueue_some(
    place: Place, options: WriteJobs, columns: Columns, batches: Iterator[pyarrow.RecordBatch]
) -> Iterator[pyarrow.RecordBatch]:
    """What one task did: how many were written, then a row for each that was refused."""
    done: Written = enqueue_rows(place, options, columns, batches)
    none = {"written": 0, "known": 0}
    yield pyarrow.RecordBatch.from_pylist(
        [
            {"written": done.written, "known": done.known},
            *({**none, **msgspec.structs.asdict(one)} for one in done.rejected),
        ],
        _ARROW,
    )


def _broken(lines: DataFrame | None, most: int) -> list[Rejected]:
    if lines is None:
        return []
    found = lines.select(F.col(BROKEN)).limit(most).collect()
    reason = "the line has more or fewer values than the first line names, or one of another type"
    return [Rejected(row[BROKEN], "BrokenLine", reason) for row in found]
