"""The audit as a job: what is read, judged, and looked at once more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from ackline.config import Resolved, resolve
from ackline.job import NO_OPTIONS, Record, State
from ackline.limits import DEFAULT_PRIORITY
from ackline.queues import Queues
from ackline.spark.events.gaps import Gap, missing_beginning
from ackline.spark.events.journal import journals
from ackline.spark.pipelines.audit import findings
from ackline.spark.pipelines.lives import JOB
from ackline.spark.rows import moment, place_of
from ackline.stores.base import QueueInfo

OF_THIS_MOMENT = ("lost", "unheard_of", "differs")
"""Findings that compare the journal with the store, which goes on while they are read."""

LISTED = 1000
"""How many findings are brought together to be shown; all are counted."""


class Audit(msgspec.Struct, frozen=True, kw_only=True):
    """What an audit found."""

    events: int
    jobs: int
    counts: Mapping[str, int]
    """How many of each finding."""
    listed: list[dict[str, str | None]]
    unseen: tuple[Gap, ...]
    """What journals have dropped already: a job of which they tell nothing since is not judged."""

    @property
    def passed(self) -> bool:
        """Zero is the only pass."""
        return not any(self.counts.values())

    @property
    def proven(self) -> bool:
        """Whether that is a proof: nobody can vouch for what could not be seen."""
        return self.passed and not self.unseen


def run_audit(
    spark: SparkSession,
    url: str,
    queues: Queues,
    names: Iterable[str] | None = None,
    *,
    shared_files: bool = False,
) -> Audit:
    """Judge the journals of these queues, or of all."""
    wanted = sorted(set(journals(queues) if names is None else names))
    known = queues.store.describe(queues.tenant, dropped=True)
    infos = [info for info in known if info.key.name in wanted]
    end = queues.info().cursor

    def read(table: str, **options: str) -> DataFrame:
        reader = spark.read.format("ackline").option("store", url).option("tenant", queues.tenant)
        reader = reader.option("sharedFiles", shared_files)
        return reader.options(**options).load(table).where(F.col("queue").isin(wanted))

    # The journal up to here; then the jobs; then what has happened since.
    events = read("events").where(F.col("place") <= place_of(end)).cache()
    jobs = read("jobs").drop("payload", "result", "error_traceback").cache()
    sizes = events.count(), jobs.count()
    # Asked for only now: a journal may be trimmed until it has been read.
    beginnings = (missing_beginning(queues.store, info.key) for info in infos)
    unseen = tuple(gap for gap in beginnings if gap is not None)
    trimmed = [gap.queue for gap in unseen]
    # What is to be kept until now was so when the jobs were read.
    found = findings(events, jobs, limits_of(spark, infos, queues.info().now), trimmed)
    found = clear(found, read("events", start=end)).cache()
    try:
        counts = {
            row["finding"]: row["count"] for row in found.groupBy("finding").count().collect()
        }
        listed = found.orderBy("finding", "queue", "id", "place").limit(LISTED).collect()
    finally:
        for kept in (events, jobs, found):
            kept.unpersist()
    return Audit(
        events=sizes[0],
        jobs=sizes[1],
        counts=counts,
        listed=[row.asDict() for row in listed],
        unseen=unseen,
    )


def clear(found: DataFrame, since: DataFrame) -> DataFrame:
    """Leave out what compares a job with the store, if the job has gone on since."""
    of_this_moment = F.col("finding").isin(list(OF_THIS_MOMENT))
    gone_on = since.select(*JOB).distinct()
    still = found.where(of_this_moment).join(gone_on, [*JOB], "left_anti")
    return found.where(~of_this_moment).unionByName(still.select(found.columns))


LIMITS = (
    "tenant string, queue string, kind string, max_attempts int, "
    "failed_since timestamp, cancelled_since timestamp"
)


def limits_of(spark: SparkSession, infos: Iterable[QueueInfo], now: float) -> DataFrame:
    """The limits of each queue and kind, as they are set now; a null kind is all others.

    They hold for jobs that have none of their own.
    """
    rows = []
    for info in infos:
        for kind in (None, *info.settings.kinds):
            policy = policy_of(info, kind)
            kept = (policy.keep_failed, policy.keep_cancelled)
            since = (moment(max(0.0, now - seconds)) for seconds in kept)
            rows.append((info.key.tenant, info.key.name, kind, policy.max_attempts, *since))
    return spark.createDataFrame(rows, LIMITS)


def policy_of(info: QueueInfo, kind: str | None) -> Resolved:
    """The policy of the jobs of a kind."""
    job = Record("", kind or "", State.QUEUED, b"", DEFAULT_PRIORITY, NO_OPTIONS, 0, 0.0)
    return resolve(job, info.settings)
