"""Files as rows that can be jobs, and the lines of them that cannot be read."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

import msgspec
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    DataType,
    DoubleType,
    IntegerType,
    StringType,
    StructType,
    TimestampType,
)

from ackline.errors import ConfigError
from ackline.spark.columns import OF_A_JOB

FORMATS = ("json", "csv", "parquet")
SUFFIXES = {"json": "json", "jsonl": "json", "ndjson": "json", "csv": "csv", "parquet": "parquet"}

BROKEN = "_broken"
"""The column into which Spark puts a line that it cannot read."""

TYPES: Mapping[str, DataType] = {
    **dict.fromkeys(("id", "queue", "kind", "group", "trace", "callback_url"), StringType()),
    "payload": StringType(),
    **dict.fromkeys(("priority", "max_attempts"), IntegerType()),
    **dict.fromkeys(("delay", "lease", "timeout", "result_ttl"), DoubleType()),
    "run_at": TimestampType(),
}
"""Of the columns of a CSV that are not part of the payload."""

MEANT = (*OF_A_JOB, "payload")
"""What `--set` may name."""


class Files(msgspec.Struct, frozen=True):
    """What was read: rows for jobs, and broken lines, null where the format has none."""

    rows: DataFrame
    broken: DataFrame | None = None


def format_of(paths: Sequence[str], said: str | None) -> str:
    """How files are written, by what was said or by their names."""
    if said is not None:
        return said
    found = {SUFFIXES.get(_suffix(path)) for path in paths}
    if len(found) != 1 or None in found:
        raise ConfigError(
            "files of which format? Their names do not say it, or say several: add --format "
            f"{', '.join(FORMATS)}"
        )
    return str(found.pop())


def _suffix(path: str) -> str:
    # Spark unpacks these by itself.
    name = path.removesuffix(".gz").removesuffix(".bz2").removesuffix(".zst")
    return name.rpartition(".")[2].lower()


def read_files(spark: SparkSession, paths: Sequence[str], format: str) -> Files:
    """The rows of files. A line of JSON is a payload as it stands, byte for byte."""
    try:
        match format:
            case "json":
                lines = spark.read.text(list(paths)).where(F.trim("value") != "")
                require_lines(lines.select(F.trim("value")).head())
                return Files(lines.withColumnRenamed("value", "payload"))
            case "csv":
                return _read_csv(spark, list(paths))
            case _:
                return Files(spark.read.parquet(*paths))
    except AnalysisException as error:
        raise ConfigError(f"the files cannot be read: {first_line(error)}") from None


def require_lines(first: Sequence[str] | None) -> None:
    """Refuse one document over many lines: each of them would be refused, or worse, be a job."""
    if first is not None and first[0] in ("[", "{"):
        raise ConfigError(
            "a file of JSON has one value in each line, and this one begins with "
            f"{first[0]!r} alone: write it in lines first, such as with jq -c '.[]' FILE"
        )


def _read_csv(spark: SparkSession, paths: list[str]) -> Files:
    header = {"header": "true", "multiLine": "true"}
    seen = spark.read.options(**header, inferSchema="true").csv(paths).schema
    schema = StructType()
    for field in seen.fields:
        # What means something to a job is of a certain type: a line that has another is broken.
        schema.add(field.name, TYPES.get(field.name, field.dataType))
    # Spark fills this column only if the schema has it.
    schema.add(BROKEN, StringType())
    reader = spark.read.options(**header, columnNameOfCorruptRecord=BROKEN).schema(schema)
    # Spark refuses to look at that column alone, unless the rows were kept.
    rows = reader.csv(paths).cache()
    good = rows.where(F.col(BROKEN).isNull()).drop(BROKEN)
    return Files(good, rows.where(F.col(BROKEN).isNotNull()).select(BROKEN))


def with_columns(rows: DataFrame, said: Mapping[str, str]) -> DataFrame:
    """Rows with what `--set NAME=SQL` says: each an expression over the file's own columns."""
    for name in said:
        if name not in MEANT:
            close = difflib.get_close_matches(name, MEANT, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(MEANT)}"
            raise ConfigError(f"--set {name}=…: a job has no {name!r}; {hint}")
    try:
        return rows.select(
            "*", *(F.expr(sql).alias(f"+{name}") for name, sql in said.items())
        ).select(
            *(name for name in rows.columns if name not in said),
            *(F.col(f"`+{name}`").alias(name) for name in said),
        )
    except PySparkException as error:
        raise ConfigError(f"--set cannot be understood: {first_line(error)}") from None


def first_line(error: Exception) -> str:
    """What Spark says in its first line; it says a lot."""
    return str(error).strip().splitlines()[0]
