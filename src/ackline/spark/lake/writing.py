"""Writing a lake's tables with Spark."""

from __future__ import annotations

from pyspark.sql import DataFrame

TIMES_IN_UTC = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}
"""Said with each write, for the session may be somebody else's: in the older form, a time does
not say that it is UTC, and whoever reads it takes it for local."""


def write_table(table: DataFrame, path: str) -> None:
    """Write a folder of Parquet in place of what is there, whatever the session's settings are."""
    table.write.mode("overwrite").options(**TIMES_IN_UTC).parquet(path)
