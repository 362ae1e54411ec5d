"""Reads Parquet with times in nanoseconds, which pandas writes and Spark does not read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow
import pyarrow.parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from ackline.core.errors import ConfigError
from ackline.spark.bulk.names import display_path, quote_column
from ackline.spark.paths import open_folder

NANOS_AS_LONG_SETTING = "spark.sql.legacy.parquet.nanosAsLong"

REWRITE_HINT = (
    "write it with microseconds, such as with "
    'df.to_parquet(FILE, coerce_timestamps="us", allow_truncated_timestamps=True)'
)


def read_parquet(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """The rows of Parquet files; nanoseconds become microseconds if nothing is lost by that."""
    spark.conf.set(NANOS_AS_LONG_SETTING, "false")
    try:
        return spark.read.parquet(*paths)
    except Exception as error:
        # Spark wraps the error of a task, or passes on Java's.
        if "TIMESTAMP(NANOS" not in str(error):
            raise
    files = spark.read.format("binaryFile").load(list(paths)).inputFiles()
    return _in_microseconds(spark, paths, columns_in_nanoseconds(files))


def _in_microseconds(
    spark: SparkSession, paths: Sequence[str], zoned: Mapping[str, bool]
) -> DataFrame:
    # It stays set: Spark looks at it once more when it reads the rows.
    spark.conf.set(NANOS_AS_LONG_SETTING, "true")
    try:
        numbers = spark.read.parquet(*paths)
    except Exception as error:
        if "TIMESTAMP(NANOS" not in str(error):
            raise
        raise _refusal(paths[0], next(iter(zoned)), "times in nanoseconds") from None
    for name in zoned:
        finer = (
            numbers.where(F.col(quote_column(name)) % 1000 != 0)
            .select("_metadata.file_path")
            .head()
        )
        if finer is not None:
            raise _refusal(finer[0], name, "times finer than a microsecond, which would be cut off")
    return numbers.select(
        *(
            _time(name, zoned[name]) if name in zoned else F.col(quote_column(name))
            for name in numbers.columns
        )
    )


def _time(name: str, zoned: bool) -> Any:
    at = F.timestamp_micros(F.expr(f"{quote_column(name)} div 1000"))
    # A time without a zone stays what it is: the sessions of commands are in UTC.
    return (at if zoned else at.cast("timestamp_ntz")).alias(name)


def columns_in_nanoseconds(files: Sequence[str]) -> dict[str, bool]:
    """The columns with times in nanoseconds, and whether they have a zone, alike in all files."""
    found = {file: _in_nanoseconds(file) for file in files}
    first = found[files[0]]
    for file, columns in found.items():
        if columns != first:
            names = ", ".join(repr(name) for name in sorted(dict(columns.items() ^ first.items())))
            raise ConfigError(
                f"{display_path(file)} and {display_path(files[0])} differ in the unit of the "
                f"times in {names}: load them one after the other"
            )
    return first


def _in_nanoseconds(file: str) -> dict[str, bool]:
    columns = {}
    for field in _schema_of(file):
        if pyarrow.types.is_timestamp(field.type) and field.type.unit == "ns":
            columns[field.name] = field.type.tz is not None
        elif "timestamp[ns" in str(field.type):
            raise _refusal(file, field.name, "times in nanoseconds within lists or structs")
    return columns


def _schema_of(file: str) -> pyarrow.Schema:
    try:
        system, path = open_folder(file)
        # The schema that Arrow keeps beside Parquet's own may have another unit.
        with system.open_input_file(path) as opened:
            metadata = pyarrow.parquet.ParquetFile(opened).metadata
            return metadata.schema.to_arrow_schema()
    except (ConfigError, OSError, pyarrow.ArrowException):
        raise ConfigError(
            f"{display_path(file)} may have times in nanoseconds, which Spark does not read: "
            f"{REWRITE_HINT}"
        ) from None


def _refusal(file: str, column: str, problem: str) -> ConfigError:
    return ConfigError(f"{display_path(file)}: column {column!r} has {problem}: {REWRITE_HINT}")
