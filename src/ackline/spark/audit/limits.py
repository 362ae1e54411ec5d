"""The limits that jobs are judged by, as the queues have them now."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame, SparkSession

from ackline.config import Resolved, resolve
from ackline.job import NO_OPTIONS, Record, State
from ackline.limits import DEFAULT_PRIORITY
from ackline.spark.rows import moment
from ackline.stores.base import QueueInfo

LIMITS = (
    "tenant string, queue string, kind string, max_attempts int, "
    "keep_failed double, keep_cancelled double, now timestamp"
)


def limits_of(spark: SparkSession, infos: Iterable[QueueInfo], now: float) -> DataFrame:
    """The limits of each queue and kind, as they are set now; a null kind is all others.

    They hold for jobs that have none of their own.
    """
    rows = []
    for info in infos:
        for kind in (None, *info.settings.kinds):
            policy = policy_of(info, kind)
            kept = policy.keep_failed, policy.keep_cancelled
            queue = info.key.tenant, info.key.name
            rows.append((*queue, kind, policy.max_attempts, *kept, moment(now)))
    return spark.createDataFrame(rows, LIMITS)


def policy_of(info: QueueInfo, kind: str | None) -> Resolved:
    """The policy of the jobs of a kind."""
    job = Record("", kind or "", State.QUEUED, b"", DEFAULT_PRIORITY, NO_OPTIONS, 0, 0.0)
    return resolve(job, info.settings)
