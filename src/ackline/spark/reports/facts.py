"""The contents of a report, gathered from a lake: small lists, however large the lake is."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from ackline.errors import ConfigError
from ackline.spark.events.gaps import Gap, ends_of
from ackline.spark.lake.batch_log import Batch
from ackline.spark.lake.lake import Lake
from ackline.spark.lake.layout import ERRORS, GOLD, OPEN, TRAFFIC, WORKERS, batch_folder
from ackline.spark.lake.reading import as_arrow, look_again, read_summaries, read_tables
from ackline.spark.pipelines import clusters, traffic, workers
from ackline.spark.pipelines.objectives import attainment, late_in_line, with_late
from ackline.spark.reports.shown import GATHERED, with_traffic

Rows = list[dict[str, Any]]

QUEUE = ("tenant", "queue")

GROUPS: Mapping[str, tuple[str, ...]] = {
    "tenant": ("tenant",),
    "queue": QUEUE,
    "kind": (*QUEUE, "kind"),
    "priority": (*QUEUE, "priority"),
}
"""What traffic is grouped by, each with the columns that name a row."""

OF_AN_HOUR = ("enqueued", "completed", "failed", "retried", "stalled", "busy_seconds")

LIKE = {
    "week": "the last weeks",
    "day": "the last days",
}
"""What a forecast is based on, in words."""

HOUR = datetime.timedelta(hours=1)
A_DAY = datetime.timedelta(days=1)

Moment = TypeVar("Moment", datetime.date, datetime.datetime)

LONGEST_GAP = 24 * 366
"""Quiet hours in a row that are still listed one by one."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a report shows."""

    lake: str
    store: str
    first_day: datetime.date
    last_day: datetime.date
    last_at: datetime.datetime
    """When the last event happened that the lake has."""
    read_at: datetime.datetime | None = None
    """When the last run began, which has taken in all events before; None if it is not known."""
    total: dict[str, Any]
    hours: Rows
    """What happened in each hour, in all queues together."""
    traffic: dict[str, Rows]
    """By tenant, queue, kind and priority, the busiest first; those with failures are all there."""
    slo: Rows
    """By queue, with the jobs that were late in line at the last run."""
    errors: Rows
    """What went into the DLQ in these days, also what was redriven since."""
    stalls: Rows
    """Traffic of the queues in which workers were lost, busy or quiet ones: most stalls first."""
    workers: Rows
    """The least reliable first."""
    busiest: Rows
    """Of all queues together, by weekday and hour of the day."""
    forecast: Rows
    """For each queue: what the next week brings, and when it needs most handlers; null if the
    queue was seen for too short a time."""
    coming: Rows
    """The next week by the hour, of all queues together."""
    gaps: list[Gap] = []
    """Events of any day that are missing in the lake, and so in all figures."""


def gather(
    spark: SparkSession,
    lake: Lake,
    last_days: int | None = None,
    now: datetime.datetime | None = None,
) -> Report:
    """The report on a lake, or on its last days."""
    made = now or datetime.datetime.now(datetime.UTC)
    return look_again(lake, lambda: _gather(spark, lake, last_days, made))


def _gather(
    spark: SparkSession, lake: Lake, last_days: int | None, now: datetime.datetime
) -> Report:
    mark = lake.require()
    days = reported_days(lake, last_days, now.date())
    parts = read_summaries(spark, lake, TRAFFIC, days)
    hourly = traffic.add_up(parts, ("hour", *traffic.GROUP)).persist()
    try:
        return Report(
            lake=lake.folder.path,
            store=mark.store,
            first_day=days[0],
            last_day=days[-1],
            last_at=last_event_at(lake.log.batches, now),
            read_at=None if mark.read_at is None else _utc(mark.read_at),
            total=rows(traffic.figures(traffic.add_up(hourly, ()), ()))[0],
            hours=with_quiet_hours(rows(_by_hour(hourly))),
            traffic={name: _busiest(hourly, by) for name, by in GROUPS.items()},
            slo=_objectives(spark, lake, hourly),
            errors=_errors(spark, lake, days),
            stalls=rows(most_stalled(hourly)),
            workers=_workers(spark, lake, days),
            gaps=lake.gaps,
            **_ahead(spark, lake),
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
    past = _past(days, today + A_DAY)
    first = past[-1] - datetime.timedelta(days=last_days - 1)
    return [day for day in past if day >= first]


def last_event_at(batches: Sequence[Batch], now: datetime.datetime) -> datetime.datetime:
    """When the last event of these batches happened."""
    return max(_past([_utc(batch.last_at) for batch in batches if batch.events], now + A_DAY))


def _past(moments: Sequence[Moment], latest: Moment) -> Sequence[Moment]:
    """Without those in the future, of a wrong clock; other clocks may be a day ahead of ours."""
    return [moment for moment in moments if moment <= latest] or moments


def _utc(seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC)


def rows(frame: DataFrame) -> Rows:
    """A small table as it is shown."""
    found: Rows = as_arrow(frame).to_pylist()
    return found


def _by_hour(hourly: DataFrame) -> DataFrame:
    sums = (F.sum(name).alias(name) for name in OF_AN_HOUR)
    return hourly.groupBy("hour").agg(*sums).orderBy("hour")


def with_quiet_hours(hours: Rows) -> Rows:
    """The same hours, and between them those in which nothing happened, with zeros."""
    nothing = dict.fromkeys(OF_AN_HOUR, 0)
    found: Rows = []
    for row in hours:
        gap = 0 if not found else int((row["hour"] - found[-1]["hour"]) / HOUR) - 1
        # With a wrong clock there may be years between two hours: only the gap's edges are drawn.
        quiet = range(1, gap + 1) if gap <= LONGEST_GAP else (1, gap)
        last = found[-1]["hour"] if found else row["hour"]
        found += [{"hour": last + number * HOUR, **nothing} for number in quiet]
        found.append(row)
    return found


def _busiest(hourly: DataFrame, by: Sequence[str]) -> Rows:
    figures = traffic.figures(traffic.add_up(hourly, by), by)
    busiest = (F.desc("enqueued"), F.desc("claimed"), *map(F.col, by))
    # Those with failures first: however quiet they are, they are not to be cut off.
    kept = figures.orderBy(F.desc("failed"), *busiest).limit(GATHERED)
    return with_traffic(rows(kept.orderBy(*busiest)))


def most_stalled(hourly: DataFrame) -> DataFrame:
    """The queues in which workers were lost, including quiet queues."""
    figures = traffic.figures(traffic.add_up(hourly, QUEUE), QUEUE)
    return figures.where("stalled > 0").orderBy(F.desc("stalled"), *QUEUE).limit(GATHERED)


def _objectives(spark: SparkSession, lake: Lake, hourly: DataFrame) -> Rows:
    """The objectives of queues, those kept worst first."""
    mark, last = lake.require(), lake.log.batches[-1]
    attained = attainment(traffic.add_up(hourly, QUEUE), QUEUE, mark.objectives)
    # As of the last run: what is in line after that is unknown.
    now = last.last_at if mark.read_at is None else mark.read_at
    open_ = read_tables(spark, lake.folder, batch_folder(OPEN, last.number))
    late = late_in_line(open_, mark.objectives, _utc(now), ends_of(lake.gaps))
    return rows(with_late(attained, late, mark.objectives).orderBy("attained", *QUEUE))


def _errors(spark: SparkSession, lake: Lake, days: Sequence[datetime.date]) -> Rows:
    """Errors that are alike, wherever they happened: `places` has the queues and kinds."""
    parts, by = read_summaries(spark, lake, ERRORS, days), ("tenant", "fingerprint")
    place = F.concat_ws(" ", "queue", F.nullif("kind", F.lit("")))
    places = parts.groupBy(*by).agg(F.sort_array(F.collect_set(place)).alias("places"))
    alike = clusters.add_up(parts, by).join(places, [*by])
    return rows(alike.orderBy(F.desc("jobs"), F.desc("last_at"), "fingerprint").limit(GATHERED))


def _workers(spark: SparkSession, lake: Lake, days: Sequence[datetime.date]) -> Rows:
    known = workers.add_up(read_summaries(spark, lake, WORKERS, days), workers.GROUP)
    figures = workers.figures(known, workers.GROUP)
    return rows(figures.orderBy("reliability", F.desc("deliveries"), "worker").limit(GATHERED))


def _ahead(spark: SparkSession, lake: Lake) -> dict[str, Rows]:
    """What gold says about usual and coming hours."""
    busiest = read_tables(spark, lake.folder, (GOLD, "busiest"))
    coming = read_tables(spark, lake.folder, (GOLD, "forecast"))
    sums = (F.sum("enqueued").alias("enqueued"), F.sum("busy_seconds").alias("busy_seconds"))
    known = F.col("handlers").isNotNull()
    most = F.max_by(F.struct("hour", "handlers"), F.when(known, F.struct("handlers", "enqueued")))
    by_queue = coming.groupBy(*QUEUE).agg(
        *sums, most.alias("most"), F.first("basis").alias("basis")
    )
    return {
        "busiest": rows(
            busiest.groupBy("weekday", "hour_of_day").agg(*sums).orderBy("weekday", "hour_of_day")
        ),
        "coming": rows(
            coming.where(known)
            .groupBy("hour")
            .agg(*sums, F.sum("handlers").alias("handlers"))
            .orderBy("hour")
        ),
        "forecast": rows(
            by_queue.select(
                *(*QUEUE, "enqueued", "busy_seconds", "basis"),
                F.col("most.hour").alias("peak_hour"),
                F.col("most.handlers").alias("peak_handlers"),
            )
            .orderBy(F.desc("peak_handlers"), F.desc("enqueued"), "queue")
            .limit(GATHERED)
        ),
    }
