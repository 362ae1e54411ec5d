"""Collects the contents of a report from a lake: small lists, however large the lake is."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from ackline.core.errors import ConfigError
from ackline.spark.journal.gaps import Gap, gap_ends
from ackline.spark.lake.batch_log import Batch
from ackline.spark.lake.lake import Lake
from ackline.spark.lake.layout import ERRORS, GOLD, OPEN, TRAFFIC, WORKERS, batch_folder
from ackline.spark.lake.reading import as_arrow, look_again, read_summaries, read_tables
from ackline.spark.reports.row_selection import MAX_ROWS, with_traffic
from ackline.spark.transforms import error_groups, traffic, workers
from ackline.spark.transforms.slo import attainment, include_overdue, overdue_jobs

Rows = list[dict[str, Any]]

QUEUE_KEY = ("tenant", "queue")

GROUPS: Mapping[str, tuple[str, ...]] = {
    "tenant": ("tenant",),
    "queue": QUEUE_KEY,
    "kind": (*QUEUE_KEY, "kind"),
    "priority": (*QUEUE_KEY, "priority"),
}
"""What traffic is grouped by, and the columns that identify a row."""

HOURLY_COLUMNS = ("enqueued", "completed", "failed", "retried", "stalled", "busy_seconds")

FORECAST_BASIS = {
    "week": "the last weeks",
    "day": "the last days",
}
"""What a forecast is based on, in words."""

HOUR = datetime.timedelta(hours=1)
DAY = datetime.timedelta(days=1)

Moment = TypeVar("Moment", datetime.date, datetime.datetime)

MAX_QUIET_HOURS = 24 * 366
"""Longest run of quiet hours that is listed hour by hour."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a report shows."""

    lake: str
    store: str
    first_day: datetime.date
    last_day: datetime.date
    last_at: datetime.datetime
    """When the last event in the lake happened."""
    read_at: datetime.datetime | None = None
    """When the last run began, which has read all events before; None if that is unknown."""
    total: dict[str, Any]
    hours: Rows
    """What happened in each hour, in all queues together."""
    traffic: dict[str, Rows]
    """By tenant, queue, kind and priority, the busiest first; rows with failures are never cut."""
    slo: Rows
    """By queue, including the jobs that had waited too long at the last run."""
    errors: Rows
    """Errors of jobs that went into the DLQ in these days, including those redriven since."""
    stalled_queues: Rows
    """Traffic of the queues in which leases expired, those with most first."""
    workers: Rows
    """The least reliable first."""
    busiest: Rows
    """Of all queues together, by weekday and hour of the day."""
    forecast: Rows
    """For each queue: the load of the next week, and when it needs most handlers; null if the
    queue has too little data."""
    forecast_hours: Rows
    """The next week by the hour, of all queues together."""
    gaps: list[Gap] = []
    """Events that are missing in the lake, and so in all figures."""


def collect_report(
    spark: SparkSession,
    lake: Lake,
    last_days: int | None = None,
    now: datetime.datetime | None = None,
) -> Report:
    """The report on a lake, or on its last days."""
    made_at = now or datetime.datetime.now(datetime.UTC)
    return look_again(lake, lambda: _gather(spark, lake, last_days, made_at))


def _gather(
    spark: SparkSession, lake: Lake, last_days: int | None, now: datetime.datetime
) -> Report:
    mark = lake.require()
    days = reported_days(lake, last_days, now.date())
    parts = read_summaries(spark, lake, TRAFFIC, days)
    hourly = traffic.merge(parts, ("hour", *traffic.GROUP_KEY)).persist()
    try:
        return Report(
            lake=lake.folder.path,
            store=mark.store,
            first_day=days[0],
            last_day=days[-1],
            last_at=last_event_at(lake.log.batches, now),
            read_at=None if mark.read_at is None else _utc(mark.read_at),
            total=collect_rows(traffic.finalize(traffic.merge(hourly, ()), ()))[0],
            hours=with_quiet_hours(collect_rows(_by_hour(hourly))),
            traffic={name: _busiest(hourly, by) for name, by in GROUPS.items()},
            slo=_slo(spark, lake, hourly),
            errors=_errors(spark, lake, days),
            stalled_queues=collect_rows(most_stalled(hourly)),
            workers=_workers(spark, lake, days),
            gaps=lake.gaps,
            **_forecasts(spark, lake),
        )
    finally:
        hourly.unpersist()


def reported_days(lake: Lake, last_days: int | None, today: datetime.date) -> list[datetime.date]:
    """The days on which something happened, or only the last ones."""
    days = sorted({day for batch in lake.log.batches for day in batch.days})
    if not days:
        raise ConfigError(
            f"the lake {lake.folder.path} is empty: run `ackline pipeline run` when jobs have run"
        )
    if last_days is None:
        return days
    past = _not_in_future(days, today + DAY)
    first = past[-1] - datetime.timedelta(days=last_days - 1)
    return [day for day in past if day >= first]


def last_event_at(batches: Sequence[Batch], now: datetime.datetime) -> datetime.datetime:
    """When the last event of these batches happened."""
    return max(
        _not_in_future([_utc(batch.last_at) for batch in batches if batch.events], now + DAY)
    )


def _not_in_future(moments: Sequence[Moment], latest: Moment) -> Sequence[Moment]:
    """Without times in the future, which come from a wrong clock; a day ahead is tolerated."""
    return [moment for moment in moments if moment <= latest] or moments


def _utc(seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC)


def collect_rows(frame: DataFrame) -> Rows:
    """The rows of a small table."""
    found: Rows = as_arrow(frame).to_pylist()
    return found


def _by_hour(hourly: DataFrame) -> DataFrame:
    sums = (F.sum(name).alias(name) for name in HOURLY_COLUMNS)
    return hourly.groupBy("hour").agg(*sums).orderBy("hour")


def with_quiet_hours(hours: Rows) -> Rows:
    """The same hours, and between them those in which nothing happened, with zeros."""
    nothing = dict.fromkeys(HOURLY_COLUMNS, 0)
    found: Rows = []
    for row in hours:
        gap = 0 if not found else int((row["hour"] - found[-1]["hour"]) / HOUR) - 1
        # With a wrong clock there may be years between two hours: only the gap's edges are drawn.
        quiet = range(1, gap + 1) if gap <= MAX_QUIET_HOURS else (1, gap)
        last = found[-1]["hour"] if found else row["hour"]
        found += [{"hour": last + number * HOUR, **nothing} for number in quiet]
        found.append(row)
    return found


def _busiest(hourly: DataFrame, by: Sequence[str]) -> Rows:
    figures = traffic.finalize(traffic.merge(hourly, by), by)
    busiest = (F.desc("enqueued"), F.desc("claimed"), *map(F.col, by))
    # Those with failures first, so that they are never cut off.
    kept = figures.orderBy(F.desc("failed"), *busiest).limit(MAX_ROWS)
    return with_traffic(collect_rows(kept.orderBy(*busiest)))


def most_stalled(hourly: DataFrame) -> DataFrame:
    """The queues in which leases expired, including quiet ones."""
    figures = traffic.finalize(traffic.merge(hourly, QUEUE_KEY), QUEUE_KEY)
    return figures.where("stalled > 0").orderBy(F.desc("stalled"), *QUEUE_KEY).limit(MAX_ROWS)


def _slo(spark: SparkSession, lake: Lake, hourly: DataFrame) -> Rows:
    """The objectives of queues, those kept worst first."""
    mark, last = lake.require(), lake.log.batches[-1]
    attained = attainment(traffic.merge(hourly, QUEUE_KEY), QUEUE_KEY, mark.objectives)
    # As of the last run: which jobs have waited since then is unknown.
    now = last.last_at if mark.read_at is None else mark.read_at
    open_ = read_tables(spark, lake.folder, batch_folder(OPEN, last.number))
    late = overdue_jobs(open_, mark.objectives, _utc(now), gap_ends(lake.gaps))
    return collect_rows(
        include_overdue(attained, late, mark.objectives).orderBy("attained", *QUEUE_KEY)
    )


def _errors(spark: SparkSession, lake: Lake, days: Sequence[datetime.date]) -> Rows:
    """Errors by fingerprint; `places` has the queues and kinds in which they happened."""
    parts, by = read_summaries(spark, lake, ERRORS, days), ("tenant", "fingerprint")
    place = F.concat_ws(" ", "queue", F.nullif("kind", F.lit("")))
    places = parts.groupBy(*by).agg(F.sort_array(F.collect_set(place)).alias("places"))
    alike = error_groups.merge(parts, by).join(places, [*by])
    return collect_rows(
        alike.orderBy(F.desc("jobs"), F.desc("last_at"), "fingerprint").limit(MAX_ROWS)
    )


def _workers(spark: SparkSession, lake: Lake, days: Sequence[datetime.date]) -> Rows:
    known = workers.merge(read_summaries(spark, lake, WORKERS, days), workers.GROUP_KEY)
    figures = workers.finalize(known, workers.GROUP_KEY)
    return collect_rows(
        figures.orderBy("reliability", F.desc("deliveries"), "worker").limit(MAX_ROWS)
    )


def _forecasts(spark: SparkSession, lake: Lake) -> dict[str, Rows]:
    """The busiest hours and the forecast, from the gold tables."""
    busiest = read_tables(spark, lake.folder, (GOLD, "busiest"))
    coming = read_tables(spark, lake.folder, (GOLD, "forecast"))
    sums = (F.sum("enqueued").alias("enqueued"), F.sum("busy_seconds").alias("busy_seconds"))
    known = F.col("handlers").isNotNull()
    most = F.max_by(F.struct("hour", "handlers"), F.when(known, F.struct("handlers", "enqueued")))
    by_queue = coming.groupBy(*QUEUE_KEY).agg(
        *sums, most.alias("most"), F.first("basis").alias("basis")
    )
    return {
        "busiest": collect_rows(
            busiest.groupBy("weekday", "hour_of_day").agg(*sums).orderBy("weekday", "hour_of_day")
        ),
        "forecast_hours": collect_rows(
            coming.where(known)
            .groupBy("hour")
            .agg(*sums, F.sum("handlers").alias("handlers"))
            .orderBy("hour")
        ),
        "forecast": collect_rows(
            by_queue.select(
                *(*QUEUE_KEY, "enqueued", "busy_seconds", "basis"),
                F.col("most.hour").alias("peak_hour"),
                F.col("most.handlers").alias("peak_handlers"),
            )
            .orderBy(F.desc("peak_handlers"), F.desc("enqueued"), "queue")
            .limit(MAX_ROWS)
        ),
    }
