"""Writing a lake's tables with Spark."""

from __future__ import annotations

from pyspark.sql import DataFrame

TIMES_IN_UTC = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}
"""Set for each write, because the session may be somebody else's: in the older form, a time does
not say that it is UTC, and readers take it for local time."""


def write_table(table: DataFrame, path: str) -> None:
    """Write a folder of Parquet in place of what is there, whatever the session's settings are."""
    table.write.mode("overwrite").options(**TIMES_IN_UTC).parquet(path)
