"""The errors that fill the DLQ, grouped by what `ackline.core.error_fingerprint` calls the same."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from ackline.core import error_fingerprint
from ackline.core.job import State
from ackline.spark.transforms.utc import day_of

GROUP_KEY = ("tenant", "queue", "kind", "fingerprint")

INPUT_COLUMNS = ("tenant", "queue", "kind", "at", "id", "token", "note")
"""The columns that are needed of a step into the DLQ."""

MAX_EXAMPLES = 3
"""How many jobs of a group are shown."""

MAX_TRACEBACK = 4000


def normalised(message: Column) -> Column:
    """A message with placeholders for what differs from job to job."""
    for pattern, blank in error_fingerprint.PLACEHOLDERS:
        message = F.regexp_replace(message, F.lit(pattern), F.lit(blank))
    return F.trim(F.substring(message, 1, error_fingerprint.MAX_MESSAGE))


def call_path(traceback: Column) -> Column:
    """The functions that a traceback passes, without lines, which change with every release."""
    files = F.regexp_extract_all(traceback, F.lit(error_fingerprint.TRACEBACK_FRAME), 1)
    functions = F.regexp_extract_all(traceback, F.lit(error_fingerprint.TRACEBACK_FRAME), 2)
    return F.concat_ws(" > ", F.zip_with(files, functions, lambda f, n: F.concat_ws(":", f, n)))


def dead_lettered(steps: DataFrame) -> DataFrame:
    """The steps into the DLQ."""
    return steps.where(F.col("to") == State.FAILED.value)


def partial(failed: DataFrame) -> DataFrame:
    """One row for each day and group of errors, from steps into the DLQ.

    These have the error from the store (`error_type`, `error_message`, `error_traceback`), or null
    if the job was gone already: then `note` has the first words of the error.
    """
    note_parts = F.split("note", ": ", 2)
    exception = F.coalesce("error_type", note_parts[0])
    message = F.coalesce("error_message", F.try_element_at(note_parts, F.lit(2)), F.lit(""))
    path = call_path(F.coalesce("error_traceback", F.lit("")))
    errors = failed.select(
        day_of("at").alias("day"),
        *("tenant", "queue", "kind", "at", "id"),
        exception.alias("exception"),
        normalised(message).alias("message"),
        path.alias("way"),
        F.struct(
            "at",
            "id",
            message.alias("message"),
            F.substring(F.col("error_traceback"), -MAX_TRACEBACK, MAX_TRACEBACK).alias("traceback"),
        ).alias("example"),
    )
    fingerprint = F.substring(
        F.sha2(F.concat_ws("\n", "exception", "message", "way"), 256),
        1,
        error_fingerprint.FINGERPRINT_LENGTH,
    )
    return (
        errors.withColumn("fingerprint", fingerprint)
        .groupBy("day", *GROUP_KEY, "exception", "message", "way")
        .agg(
            F.count("*").alias("jobs"),
            F.min("at").alias("first_at"),
            F.max("at").alias("last_at"),
            F.max_by("example", F.struct("at", "id"), MAX_EXAMPLES).alias("examples"),
        )
    )


def merge(parts: DataFrame, by: Sequence[str]) -> DataFrame:
    """The parts of each group of errors merged into one."""
    latest = F.sort_array(F.flatten(F.collect_list("examples")), asc=False)
    return parts.groupBy(*by).agg(
        *(F.first(name).alias(name) for name in ("exception", "message", "way")),
        F.sum("jobs").alias("jobs"),
        F.min("first_at").alias("first_at"),
        F.max("last_at").alias("last_at"),
        F.slice(latest, 1, MAX_EXAMPLES).alias("examples"),
    )
