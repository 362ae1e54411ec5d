"""Reading a lake's tables with Spark."""

from __future__ import annotations

import datetime
from collections.abc import Iterable

import pyarrow
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from ackline.spark.lake.folder import Folder
from ackline.spark.lake.lake import Lake


def read_tables(spark: SparkSession, folder: Folder, *tables: tuple[str, ...]) -> DataFrame:
    """Files or folders of Parquet as one table, with the columns of the last."""
    # Spark would run a job each time, only to find these columns.
    columns = from_arrow_schema(folder.dataset(*tables[-1]).schema)
    return spark.read.schema(columns).parquet(*(folder.at(*parts) for parts in tables))


def as_arrow(frame: DataFrame) -> pyarrow.Table:
    """A small table brought here; its times are in UTC, whatever zone the session has."""
    return frame.toArrow().cast(to_arrow_schema(frame.schema, timezone="UTC"))


def read_parts(
    spark: SparkSession,
    lake: Lake,
    name: tuple[str, ...],
    days: Iterable[datetime.date] | None = None,
) -> DataFrame:
    """The parts of complete batches, of some days or of all."""
    tables = [lake.parts(name, batch.number) for batch in lake.batches]
    parts = read_tables(spark, lake.folder, *tables)
    return parts if days is None else parts.where(F.col("day").isin(list(days)))
