"""Jobs or the journal into files."""

from __future__ import annotations

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from ackline.errors import ConfigError
from ackline.spark.bulk.files import first_line
from ackline.spark.place import Place

BYTES = ("payload", "result")
"""Columns that are bytes, and text in JSON and in conditions."""


def read_table(spark: SparkSession, place: Place, table: str) -> DataFrame:
    """A table of the store."""
    reader = spark.read.format("ackline").option("store", place.url).option("tenant", place.tenant)
    return reader.option("sharedFiles", place.shared_files).load(table)


def as_text(rows: DataFrame) -> DataFrame:
    """Payloads and results as the text that they are."""
    here = [name for name in BYTES if name in rows.columns]
    return rows.withColumns({name: F.decode(F.col(name), "UTF-8") for name in here})


def chosen(rows: DataFrame, where: str | None) -> DataFrame:
    """The rows for which a condition holds; a mistake in it is reported before anything runs."""
    if where is None:
        return rows
    try:
        return rows.where(where)
    except PySparkException as error:
        known = ", ".join(rows.columns)
        raise ConfigError(
            f"--where cannot be understood: {first_line(error)}\nThe columns are {known}"
        ) from None


def export(rows: DataFrame, path: str, format: str, *, overwrite: bool) -> int:
    """Write rows as Parquet or JSON lines; returns how many."""
    written = as_text(rows) if format == "json" else rows
    # As they are written: the store may have others when it is asked again.
    counted = Observation()
    seen = written.observe(counted, F.count(F.lit(1)).alias("rows"))
    try:
        seen.write.mode("overwrite" if overwrite else "errorifexists").format(format).save(path)
    except AnalysisException as error:
        if "PATH_ALREADY_EXISTS" in str(error):
            raise ConfigError(
                f"{path} is there already: name another, or add --overwrite"
            ) from None
        raise
    return int(counted.get["rows"])
