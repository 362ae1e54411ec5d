"""Reads files as rows for jobs, and the lines that cannot be read."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

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

from ackline.core.errors import ConfigError
from ackline.spark.bulk.malformed_csv import CsvLayout
from ackline.spark.bulk.names import display_path, quote_column
from ackline.spark.bulk.parquet_timestamps import read_parquet
from ackline.spark.lake.folder import is_pattern
from ackline.spark.option_text import suggest_similar
from ackline.spark.writing.columns import JOB_COLUMNS

FORMATS = ("json", "csv", "parquet")
SUFFIXES = {"json": "json", "jsonl": "json", "ndjson": "json", "csv": "csv", "parquet": "parquet"}

MALFORMED_COLUMN = "_broken line"
"""The column into which Spark puts a line that it cannot read."""

CSV_COLUMN_TYPES: Mapping[str, DataType] = {
    **dict.fromkeys(("id", "queue", "kind", "group", "trace", "callback_url"), StringType()),
    "payload": StringType(),
    **dict.fromkeys(("priority", "max_attempts"), IntegerType()),
    **dict.fromkeys(("delay", "lease", "timeout", "result_ttl", "backoff"), DoubleType()),
    "run_at": TimestampType(),
}
"""The types of the columns of a CSV that are not part of the payload."""

COMMA = ","
OTHER_DELIMITERS = {";": "';'", "\t": "tab", "|": "'|'"}
"""Other delimiters of CSV files, and how they are written on a command line."""

CSV_OPTIONS = {"multiLine": "true", "escape": '"'}
"""Quotes as in RFC 4180, and as most programs write them: doubled, not after a backslash."""

UNREADABLE = re.compile(r"\[FAILED_READ_FILE\.\w+\] .*? reading file (\S.*?)\.\s")
CAUSE = re.compile(r"^Caused by: [\w.$]+: (.+)$", re.MULTILINE)
"""Java's messages about a file that it cannot read, and about the cause."""

LINE_BREAK = re.compile("[\r\n]")

OTHER_COLUMNS = re.compile(r"CSV header(?:.*\n)*?CSV file: (.*)")
"""Spark's message about a file whose first line has other names."""

SETTABLE = (*JOB_COLUMNS, "payload")
"""What `--set` can set."""


class InputRows(msgspec.Struct, frozen=True):
    """What was read: rows for jobs, and malformed lines, None if the format cannot have any."""

    rows: DataFrame
    broken: DataFrame | None = None
    lines: CsvLayout | None = None
    """What the malformed lines should look like."""


def format_of(paths: Sequence[str], given: str | None) -> str:
    """The format of files: as given, or by their names."""
    if given is not None:
        return given
    found = {SUFFIXES.get(_suffix(path)) for path in paths}
    if len(found) != 1 or None in found:
        raise ConfigError(
            "the format of the files is unclear from their names: add --format "
            f"{', '.join(FORMATS)}"
        )
    return str(found.pop())


def _suffix(path: str) -> str:
    # Spark unpacks these by itself.
    name = path.removesuffix(".gz").removesuffix(".bz2").removesuffix(".zst")
    return name.rpartition(".")[2].lower()


def read_files(
    spark: SparkSession,
    paths: Sequence[str],
    format: str,
    *,
    infer: bool = False,
    delimiter: str | None = None,
    computed: Collection[str] = (),
) -> InputRows:
    """The rows of files. A line of JSON is the payload, byte for byte.

    The fields of a CSV are text, unless `infer` is set. So is `backoff` if it is to be computed,
    because a CSV has no lists.
    """
    if delimiter is not None and format != "csv":
        raise ConfigError(f"--delimiter is for CSV, and these files are {format}: leave it out")
    named = list(paths)
    for path in named:
        require_literal_path(path)
    try:
        with unreadable_file_named():
            return _read(spark, named, format, infer, delimiter, computed)
    except AnalysisException as error:
        raise ConfigError(f"the files cannot be read: {first_line(error)}") from None


def _read(
    spark: SparkSession,
    paths: list[str],
    format: str,
    infer: bool,
    delimiter: str | None,
    computed: Collection[str],
) -> InputRows:
    match format:
        case "json":
            lines = spark.read.text(paths).where(F.trim("value") != "")
            require_json_lines(lines.select(F.trim("value")).head())
            return InputRows(lines.withColumnRenamed("value", "payload"))
        case "csv":
            return _read_csv(spark, paths, infer, delimiter, computed)
        case _:
            return InputRows(read_parquet(spark, paths))


@contextmanager
def unreadable_file_named() -> Iterator[None]:
    """Raise an error that says which file cannot be read, and why."""
    try:
        yield
    except Exception as error:
        # Spark wraps the error of a task, or passes on Java's.
        if (unreadable := unreadable_file_error(str(error))) is None:
            raise
        raise unreadable from error


def unreadable_file_error(text: str) -> ConfigError | None:
    """The file that Spark could not read, and the cause that Java names last."""
    if (found := UNREADABLE.search(text)) is None:
        return None
    causes = CAUSE.findall(text, found.end())
    cause = f": {causes[-1]}" if causes else ""
    return ConfigError(
        f"{display_path(found[1])} cannot be read{cause}. Replace it and load again: jobs "
        "that are enqueued already are not enqueued twice"
    )


def require_literal_path(path: str) -> None:
    """Refuse a file whose name means something else to Spark."""
    name = os.path.basename(path)
    if ":" in name:
        raise ConfigError(f"{path}: Spark cannot read files with a colon in their names: rename it")
    if name.startswith(("_", ".")) and not os.path.isdir(path):
        raise ConfigError(
            f"{path}: Spark skips files whose names begin with {name[0]!r}: rename it"
        )
    if is_pattern(path) and os.path.exists(path):
        raise ConfigError(f"{path}: Spark takes this name for a pattern: rename it")


def require_json_lines(first: Sequence[str] | None) -> None:
    """Refuse a document over many lines: each line would be rejected or become a job."""
    if first is not None and first[0] in ("[", "{"):
        raise ConfigError(
            "a JSON file must have one value in each line, but this one begins with a line "
            f"{first[0]!r}: convert it first, such as with jq -c '.[]' FILE"
        )


def files_with_unbalanced_quotes(lines: DataFrame) -> list[str]:
    """The files in which a quote may be unclosed; one that is not UTF-8 is refused.

    Spark would silently replace the characters that it cannot read.
    """
    text = F.col("value")
    foreign = ~F.is_valid_utf8(text) | F.contains(text, F.lit("\0"))
    quotes = F.length(text) - F.length(F.replace(text, F.lit('"'), F.lit("")))
    found = lines.groupBy(F.col("_metadata.file_path").alias("file")).agg(
        F.bool_or(foreign).alias("foreign"), (F.sum(quotes) % 2 == 1).alias("odd")
    )
    rows = found.where("foreign or odd").collect()
    for row in rows:
        if row["foreign"]:
            raise ConfigError(
                f"{display_path(row['file'])} is not UTF-8: convert it first, such as with "
                "iconv -f LATIN1 -t UTF-8 FILE"
            )
    return [row["file"] for row in rows]


def _require_closed_quotes(rows: DataFrame, last: str, odd: Sequence[str]) -> None:
    """Refuse a file with an unclosed quote: all lines after it would become its last value.

    An odd number of quotes is no proof of that: a quote within an unquoted value means nothing.
    """
    if not odd:
        return
    file, value = (
        F.col("_metadata.file_path").alias("file"),
        F.col(quote_column(last)).cast("string"),
    )
    placed = rows.select(file, value.alias("value"), F.monotonically_increasing_id().alias("place"))
    ends = placed.where(F.col("file").isin(*odd)).groupBy("file").agg(F.max_by("value", "place"))
    for name, text in ends.collect():
        if text is not None and LINE_BREAK.search(text):
            raise ConfigError(
                f"{display_path(name)} has a quote that is not closed, before {text[:40]!r}: "
                "close it, and double quotes that are part of a value"
            )


def _read_csv(
    spark: SparkSession,
    paths: list[str],
    infer: bool,
    delimiter: str | None,
    computed: Collection[str],
) -> InputRows:
    csv = {**CSV_OPTIONS, "sep": delimiter or COMMA}
    odd = files_with_unbalanced_quotes(spark.read.text(paths))
    names = csv_column_names(spark.read.options(**csv).csv(paths).head())
    if delimiter is None:
        require_comma_separated(names)
    types: list[DataType] = [StringType()] * len(names)
    if infer:
        seen = spark.read.options(**csv, header="true", inferSchema="true").csv(paths).schema
        types = [field.dataType for field in seen.fields]
    known = (
        {**CSV_COLUMN_TYPES, "backoff": StringType()} if "backoff" in computed else CSV_COLUMN_TYPES
    )
    schema = StructType()
    for name, type in zip(names, types, strict=True):
        # Columns that describe a job have fixed types: a line with another type is malformed.
        schema.add(name, known.get(name, type))
    # Spark fills this column only if the schema has it.
    schema.add(MALFORMED_COLUMN, StringType())
    # By default, Spark would apply the names of the first file to all files.
    reader = spark.read.options(**csv, header="true", enforceSchema="false")
    reader = reader.options(columnNameOfCorruptRecord=MALFORMED_COLUMN).schema(schema)
    # Spark reads that column alone only from cached rows.
    rows = reader.csv(paths).cache()
    _require_same_columns(rows, names)
    _require_closed_quotes(reader.csv(paths), names[-1], odd)
    good = rows.where(F.col(MALFORMED_COLUMN).isNull()).drop(MALFORMED_COLUMN)
    kinds = tuple((field.name, field.dataType.simpleString()) for field in good.schema)
    lines = CsvLayout(kinds, delimiter or COMMA)
    return InputRows(good, rows.where(F.col(MALFORMED_COLUMN).isNotNull()), lines)


def csv_column_names(first: Sequence[str | None] | None) -> list[str]:
    """The names that the first line of a CSV gives its columns."""
    if first is None:
        raise ConfigError("the file is empty: a CSV begins with a line that names its columns")
    names = [name for name in first if name]
    if len(names) < len(first):
        missing = [bool(name) for name in first].index(False) + 1
        raise ConfigError(f"column {missing} of the CSV has no name: give it one in the first line")
    if broken := [name for name in names if LINE_BREAK.search(name)]:
        raise ConfigError(
            f"the name of a column of the CSV has several lines, {broken[0][:40]!r}: close the "
            "quote before it"
        )
    if twice := [name for name, times in Counter(names).items() if times > 1]:
        raise ConfigError(f"the CSV has several columns {twice[0]!r}: give each its own name")
    return names


def require_comma_separated(names: Sequence[str]) -> None:
    """Refuse a CSV that seems to have another delimiter."""
    for character, written in OTHER_DELIMITERS.items():
        if len(names) == 1 and character in names[0]:
            raise ConfigError(
                f"the CSV names a single column, {names[0][:40]!r}. If its values are not "
                f"separated by commas, add --delimiter {written}; if not, add "
                "--delimiter ,"
            )


def _require_same_columns(rows: DataFrame, names: Sequence[str]) -> None:
    """Refuse a file with other columns: all rows are read, and cached, before any is enqueued."""
    try:
        rows.count()
    except Exception as error:
        # Spark wraps the error of a task, or passes on Java's.
        if (other := OTHER_COLUMNS.search(str(error))) is None:
            raise
        raise ConfigError(
            f"{other[1].strip()} does not have the columns of the first file in their order "
            f"({', '.join(names)}): load it by itself"
        ) from None


def with_set_columns(rows: DataFrame, expressions: Mapping[str, str]) -> DataFrame:
    """Rows with the columns of `--set NAME=SQL`: expressions over the file's own columns."""
    require_settable_fields(expressions)
    try:
        return rows.select(
            "*", *(F.expr(sql).alias(f"+{name}") for name, sql in expressions.items())
        ).select(
            *(quote_column(name) for name in rows.columns if name not in expressions),
            *(F.col(quote_column(f"+{name}")).alias(name) for name in expressions),
        )
    except PySparkException as error:
        raise ConfigError(f"invalid --set: {first_line(error)}") from None


def require_settable_fields(names: Iterable[str]) -> None:
    """Refuse names of `--set` that are no fields of a job."""
    for name in names:
        if name not in SETTABLE:
            hint = suggest_similar(name, SETTABLE) or f"there are {', '.join(SETTABLE)}"
            raise ConfigError(f"--set {name}=…: a job has no {name!r}; {hint}")


def first_line(error: Exception) -> str:
    """The first line of Spark's message, which is long."""
    return str(error).strip().splitlines()[0]
