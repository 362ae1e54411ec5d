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

OF_TWO_JOURNALS = ("moved_nowhere", "moved_from_nowhere")
"""Findings about two queues; in a cluster one may tell its half of a move later."""

OF_THIS_MOMENT = ("lost", "unheard_of", "differs", *OF_TWO_JOURNALS)
"""Findings that compare the journal with what goes on while it is read."""

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
    # And so are these: a move may have made a queue since.
    unaudited = set(journals(queues)).difference(wanted)
    # What is to be kept until now was so when the jobs were read.
    limits = limits_of(spark, infos, queues.info().now)
    found = findings(events, jobs, limits, trimmed, unaudited)
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
    """Leave out what is about this moment, if the job has gone on since."""
    found, gone_on = found.alias("found"), since.select(*JOB).distinct().alias("gone_on")
    of_two = F.col("found.finding").isin(list(OF_TWO_JOURNALS))
    same = [F.col(f"found.{name}") == F.col(f"gone_on.{name}") for name in ("tenant", "id")]
    here = of_two | (F.col("found.queue") == F.col("gone_on.queue"))
    of_this_moment = F.col("found.finding").isin(list(OF_THIS_MOMENT))
    return found.join(gone_on, [*same, here, of_this_moment], "left_anti")


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
