"""Runs the audit of a store, or of a lake and its store together."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec
from pyspark.sql import DataFrame, SparkSession

from ackline.core.limits import require_seconds
from ackline.queues import Queues
from ackline.spark.audit.effective_limits import limits_table
from ackline.spark.audit.findings import findings, without_transient
from ackline.spark.audit.lake_history import LakeHistory
from ackline.spark.audit.store_history import StoreHistory, StoreTables
from ackline.spark.journal.gaps import Gap, gap_ends
from ackline.spark.journal.journals import list_journals
from ackline.spark.lake.lake import Lake
from ackline.spark.lake.reading import look_again
from ackline.spark.transforms.journal_slices import after_cursors

MAX_LISTED = 1000
"""Findings that are listed; all are counted."""

JOB_COLUMNS = ("tenant", "queue", "id", "kind", "state", "max_attempts")
"""The columns of jobs that the audit needs: payloads, results and tracebacks may be large."""


class AuditResult(msgspec.Struct, frozen=True, kw_only=True):
    """What an audit found."""

    events: int
    jobs: int
    counts: Mapping[str, int]
    """How many of each finding."""
    findings: list[dict[str, str | None]]
    gaps: tuple[Gap, ...]
    """Events that neither store nor lake has. Nothing before them is audited, so a job without any
    event since then cannot be found missing."""

    @property
    def passed(self) -> bool:
        """Whether there are no findings."""
        return not any(self.counts.values())

    @property
    def proven(self) -> bool:
        """Whether it passed and no events were missing."""
        return self.passed and not self.gaps


def run_audit(
    spark: SparkSession,
    url: str,
    queues: Queues,
    names: Collection[str] | None = None,
    *,
    lake: Lake | None = None,
    shared_files: bool = False,
    result_ttl: float | None = None,
) -> AuditResult:
    """Audit the journals of these queues, or of all, as far back as they are kept.

    `result_ttl` is for how many seconds every result is kept at least. With it, a completed job
    that is missing, or whose id is used again sooner, is a finding.
    """
    require_seconds("result_ttl", result_ttl)

    def audit() -> AuditResult:
        tables = StoreTables(spark, url, queues, names, shared_files=shared_files)
        return _audit_once(tables, lake, result_ttl)

    return audit() if lake is None else look_again(lake, audit)


def _audit_once(tables: StoreTables, lake: Lake | None, result_ttl: float | None) -> AuditResult:
    history = StoreHistory(tables) if lake is None else LakeHistory(tables, lake)
    end = tables.queues.info().cursor
    # The journal up to here; then the jobs; then what has happened since.
    events = history.events(end).cache()
    # Not cached: what a cache loses is read again, and the jobs may have changed by then. If a
    # checkpoint is lost, the audit fails.
    jobs = tables.read("jobs", columns=",".join(JOB_COLUMNS)).localCheckpoint()
    try:
        sizes = events.count(), jobs.count()
        # Only now: a journal may be trimmed at any time until it has been read.
        unseen = history.unseen()
        found = _find(tables, after_cursors(events, gap_ends(unseen)), jobs, unseen, result_ttl)
        counts, listed = _collect(without_transient(found, tables.read("events", start=end)))
    finally:
        events.unpersist()
    return AuditResult(events=sizes[0], jobs=sizes[1], counts=counts, findings=listed, gaps=unseen)


def _find(
    tables: StoreTables,
    events: DataFrame,
    jobs: DataFrame,
    unseen: Collection[Gap],
    result_ttl: float | None,
) -> DataFrame:
    # A job that must be kept until now must also have been there when the jobs were read.
    store = tables.queues.store
    now = store.now()
    limits = limits_table(tables.spark, store, tables.infos, now)
    # Only now, too: a move may have made a queue since.
    unaudited = set(list_journals(tables.queues)) - {info.key.name for info in tables.infos}
    trimmed = {gap.queue for gap in unseen}
    return findings(events, jobs, limits, trimmed, unaudited, result_ttl=result_ttl)


def _collect(found: DataFrame) -> tuple[dict[str, int], list[dict[str, str | None]]]:
    """How many there are of each finding, and the first `MAX_LISTED` of all."""
    found = found.cache()
    try:
        counts = {
            row["finding"]: row["count"] for row in found.groupBy("finding").count().collect()
        }
        listed = found.orderBy("finding", "queue", "id", "place").limit(MAX_LISTED).collect()
    finally:
        found.unpersist()
    return counts, [row.asDict() for row in listed]
