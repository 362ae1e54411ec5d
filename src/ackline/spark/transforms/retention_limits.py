"""The limits of attempts and retention that apply to jobs, as far as they are known."""

from __future__ import annotations

from typing import NamedTuple, Self

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from ackline.core.events import Act
from ackline.core.job import State

QUEUE_KEY = ("tenant", "queue")

PROPAGATION_DELAY = "interval 1 minute"
"""After this time, all processes apply the new settings of a queue to what they claim or begin."""

ROUNDING_TOLERANCE = 1.0
"""Seconds that the end of a retention may be off: the times of a journal are rounded."""


class JobLimits(NamedTuple):
    """The current limits, and since when they apply."""

    limits: DataFrame
    changes: DataFrame
    """When the settings of queues were last `changed`: how they were before is unknown."""

    @classmethod
    def load(cls, events: DataFrame, limits: DataFrame, result_ttl: float | None = None) -> Self:
        """The limits, when they changed according to the journal, and how long results are kept.

        Only the operator knows the last, because a handler may decide it for each job.
        """
        changes = events.where(F.col("act").isin([Act.CONFIGURE.value, Act.DROP.value]))
        kept = F.lit(result_ttl).cast("double")
        changed = changes.groupBy(*QUEUE_KEY).agg(F.max("at").alias("changed"))
        return cls(limits.withColumn("result_ttl", kept), changed)

    def join(self, rows: DataFrame, kind: str = "kind") -> DataFrame:
        """Rows with the `limit` of this kind, or else of their queue, and when it `changed`."""
        limit = F.struct("max_attempts", "keep_failed", "keep_cancelled", "result_ttl", "now")
        kinds = self.limits.where("kind is not null").withColumnRenamed("kind", kind)
        of_kind = F.broadcast(kinds.select(*QUEUE_KEY, kind, limit.alias("of_kind")))
        others = self.limits.where("kind is null")
        of_queue = F.broadcast(others.select(*QUEUE_KEY, limit.alias("of_queue")))
        return (
            rows.join(of_kind, [*QUEUE_KEY, kind], "left")
            .join(of_queue, [*QUEUE_KEY], "left")
            .join(F.broadcast(self.changes), [*QUEUE_KEY], "left")
            .withColumn("limit", F.coalesce("of_kind", "of_queue"))
        )


def is_retained(state: Column, entry: Column, at: Column) -> Column:
    """Whether a job that an entry left in a terminal state must still be there at some time.

    A job that was edited or moved after it had ended may be kept for less. `result_ttl` applies to
    all results, whatever was changed since.
    """
    known = settings_known(entry["settings_at"])
    keep = (
        F.when(state == State.COMPLETED.value, F.col("limit.result_ttl"))
        .when((state == State.FAILED.value) & known, F.col("limit.keep_failed"))
        .when((state == State.CANCELLED.value) & known, F.col("limit.keep_cancelled"))
    )
    ended = ~entry["act"].isin([Act.EDIT.value, Act.MOVE.value])
    passed = (F.unix_micros(at) - F.unix_micros(entry["at"])) / 1e6
    return F.coalesce(ended & (passed < keep - ROUNDING_TOLERANCE), F.lit(False))


def settings_known(at: Column) -> Column:
    """Whether all processes knew the current settings at some time."""
    return F.col("changed").isNull() | (at > F.col("changed") + F.expr(PROPAGATION_DELAY))
