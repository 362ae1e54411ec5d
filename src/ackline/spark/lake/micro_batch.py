"""Takes one micro-batch of the journal into the lake. Done again, it replaces what it did."""

from __future__ import annotations

import datetime
from collections.abc import Callable

import pyarrow
import pyarrow.compute
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from ackline.core.errors import ConfigError
from ackline.core.ids import new_id
from ackline.spark.journal.gaps import Gap
from ackline.spark.lake.batch_log import Batch
from ackline.spark.lake.counts import require_whole
from ackline.spark.lake.lake import Lake
from ackline.spark.lake.layout import (
    ERRORS,
    EVENTS,
    JOBS,
    OPEN,
    SUMMARIES,
    TRAFFIC,
    WORKERS,
    WRITING,
    Table,
    batch_folder,
)
from ackline.spark.lake.reading import read_tables
from ackline.spark.lake.skipped import gaps_up_to
from ackline.spark.lake.tracebacks import with_errors
from ackline.spark.lake.writing import write_table
from ackline.spark.store.address import StoreAddress
from ackline.spark.tables.job_rows import TIMESTAMP
from ackline.spark.transforms import error_groups, traffic, workers
from ackline.spark.transforms.job_runs import job_runs, timed_steps
from ackline.spark.transforms.open_jobs import open_jobs

Rows = dict[Table, int]
"""How many rows each table got."""


def pass_nothing(_point: str) -> None:
    """Called at points at which tests let a run die."""


class MicroBatch:
    """Takes a micro-batch through bronze and silver, and adds its part to what gold is made of.

    Each table gets a folder of its own for each batch, which is overwritten. What it needs of the
    batch before, the lives that go on, is kept until the next one is complete. So a batch that is
    replayed, from wherever it was interrupted, leaves the lake as if it had been done once.

    Spark writes to a folder that no other run uses, and what it wrote is put in its place in the
    lake when it is complete. So a run that slept while another finished its batch is stopped before
    it changes anything.
    """

    def __init__(
        self, lake: Lake, address: StoreAddress, passing: Callable[[str], None] = pass_nothing
    ) -> None:
        self._lake = lake
        self._address = address
        self._pass = passing
        self._aside = (WRITING, new_id())

    def __call__(self, events: DataFrame, number: int) -> None:
        """Spark calls this with each micro-batch."""
        spark = events.sparkSession
        rows: Rows = {EVENTS: self._save(events, EVENTS, number)}
        self._pass("bronze")
        # Read back, so that the store need not be read twice.
        saved = spark.read.schema(events.schema).parquet(self._lake.table(EVENTS, number))
        steps = self._steps(spark, saved, number).persist()
        try:
            rows |= self._write(steps, number)
        finally:
            steps.unpersist()
        brought = _summary(self._lake, number, rows, gaps_up_to(number, self._lake, self._address))
        self._pass("counted")
        self._lake.log.add(brought)
        self._pass("logged")
        self._lake.folder.remove(*self._aside)
        for old in self._lake.folder.batches(*OPEN):
            if old < number - 1:
                self._lake.folder.remove(*batch_folder(OPEN, old))

    def _steps(self, spark: SparkSession, events: DataFrame, number: int) -> DataFrame:
        """The steps of this batch, after those of the lives that went on before it."""
        new = events.withColumn("new", F.lit(True))
        before = self._went_on(spark, number)
        if before is None:
            return timed_steps(new)
        return timed_steps(
            new.unionByName(before.withColumn("new", F.lit(False)), allowMissingColumns=True)
        )

    def _went_on(self, spark: SparkSession, number: int) -> DataFrame | None:
        if not number:
            return None
        if not self._lake.has(OPEN, number - 1):
            raise ConfigError(
                f"the lake {self._lake.folder.path} lacks the lives that went on after batch "
                f"{number - 1}: its folder and its checkpoint do not belong together"
            )
        # Lives whose beginning is lost would never be reported.
        if (before := self._lake.log.batch(number - 1)) is not None:
            require_whole(self._lake, OPEN, [before])
        return read_tables(spark, self._lake.folder, batch_folder(OPEN, number - 1))

    def _write(self, steps: DataFrame, number: int) -> Rows:
        new = steps.where("new")
        tables = {
            JOBS: job_runs(steps.where("not goes_on")),
            OPEN: open_jobs(steps),
            TRAFFIC: traffic.partial(new),
            WORKERS: workers.partial(new),
            ERRORS: error_groups.partial(
                with_errors(error_groups.dead_lettered(new), self._address)
            ),
        }
        rows: Rows = {}
        for name, table in tables.items():
            # Summaries have few rows: one file each.
            few = table.coalesce(1) if name in SUMMARIES else table
            rows[name] = self._save(few, name, number)
            self._pass(name[-1])
        return rows

    def _save(self, table: DataFrame, name: Table, number: int) -> int:
        """Write a table and put it in its place; returns how many rows it has."""
        folder, aside = self._lake.folder, (*self._aside, *name)
        write_table(table, folder.at(*aside))
        rows = folder.count_rows(*aside)
        self._pass("written")
        folder.replace(aside, batch_folder(name, number))
        return rows


def _summary(lake: Lake, number: int, rows: Rows, gaps: list[Gap]) -> Batch:
    """The log entry of a batch. Its days are read from its files: Spark would need a job for it."""
    # Of work that began on an earlier day, only the summary knows.
    worked = lake.folder.dataset(*batch_folder(TRAFFIC, number)).to_table(columns=["day"])
    days: set[datetime.date] = set(pyarrow.compute.unique(worked["day"]).to_pylist())
    last = 0
    for chunk in lake.folder.dataset(*batch_folder(EVENTS, number)).to_batches(columns=["at"]):
        at = chunk.column("at").cast(TIMESTAMP)
        days.update(pyarrow.compute.unique(at.cast(pyarrow.date32())).to_pylist())
        last = max(last, pyarrow.compute.max(at.cast(pyarrow.int64())).as_py() or 0)
    return Batch(
        number=number,
        events=rows[EVENTS],
        ended=rows[JOBS],
        going_on=rows[OPEN],
        summary_rows={name[-1]: rows[name] for name in SUMMARIES},
        days=sorted(days),
        last_at=last / 1e6,
        gaps=gaps,
    )
