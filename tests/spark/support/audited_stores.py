"""The audit of stores in memory, whose journals and jobs a test may have changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow
from pyspark.sql import DataFrame, SparkSession
from tests.spark.support.job_histories import all_events

from ackline.core.config import DEFAULTS
from ackline.core.events import Event
from ackline.core.job import QueueKey
from ackline.queues import Queues
from ackline.spark import schemas
from ackline.spark.audit.effective_limits import limits_table
from ackline.spark.audit.findings import findings
from ackline.spark.tables.event_rows import events_batch
from ackline.spark.tables.job_rows import jobs_batch
from ackline.stores.contract import Filter

Job = dict[str, Any]
JOBS = "tenant string, queue string, id string, kind string, state string, max_attempts int"


def events_of(tenants: Iterable[Queues]) -> list[Event]:
    return [event for queues in tenants for event in all_events(queues)]


def jobs_of(tenants: Iterable[Queues]) -> Iterator[Job]:
    for queues in tenants:
        for name in queues:
            key = QueueKey(queues.tenant, name)
            page = queues.store.page(key, Filter(), None, 10_000)
            yield from jobs_batch(key, page.jobs).to_pylist()


def table_of(spark: SparkSession, events: Sequence[Event]) -> DataFrame:
    table = pyarrow.Table.from_batches([events_batch(list(events))])
    return spark.createDataFrame(table, schemas.EVENTS)


def judged(
    spark: SparkSession,
    tenants: Sequence[Queues],
    events: Sequence[Event],
    jobs: Iterable[Job],
    result_ttl: float | None = DEFAULTS.result_ttl,
    **unseen: Sequence[str],
) -> set[tuple[str, str, str, str]]:
    """What is found: the finding, the tenant, the queue and the job."""
    names = [column.split()[0] for column in JOBS.split(", ")]
    store = spark.createDataFrame([tuple(job[name] for name in names) for job in jobs], JOBS)
    infos = [info for queues in tenants for info in queues.describe()]
    limits = limits_table(spark, tenants[0].store, infos, tenants[0].store.now())
    found = findings(table_of(spark, events), store, limits, **unseen, result_ttl=result_ttl)
    return {tuple(row) for row in found.select("finding", *names[:3]).collect()}
