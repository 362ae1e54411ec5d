"""Which hours are busy, and how many handlers the next week needs.

A week is assumed to be like the weeks before it, the latest counting most, and to grow or shrink
as much as the last week did against the one before. With less than a week of data, a day
is assumed to be like the day before. With less than a day, there is no forecast.
"""

from __future__ import annotations

import datetime

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F  # noqa: N812

from ackline.spark.transforms.utc import hour_of_day, weekday_of

QUEUE_KEY = ("tenant", "queue")
LOAD = ("enqueued", "busy_seconds")

UTILISATION = 0.7
"""How busy handlers may be: above it, waiting grows out of proportion."""

HALF_LIFE_WEEKS = 2.0
"""After this many weeks an hour counts half."""

LARGEST_CHANGE = 2.0
"""How much a forecast may grow or shrink from one week to the next."""

HOURS_PER_WEEK = 7 * 24

TOO_LITTLE_DATA = "too_little"
"""The basis of a queue that was seen for less than a day."""


def hourly_grid(traffic: DataFrame) -> DataFrame:
    """Each hour of each queue, from its first to the last of all; quiet hours have zeros.

    `age_hours` counts back from the last.
    """
    each = F.explode(F.sequence("first", "last", F.expr("interval 1 hour"))).alias("hour")
    grid = (
        traffic.groupBy(*QUEUE_KEY)
        .agg(F.min("hour").alias("first"))
        .crossJoin(traffic.agg(F.max("hour").alias("last")))
        .select(*QUEUE_KEY, each, "last")
    )
    age = (F.unix_seconds("last") - F.unix_seconds("hour")) / 3600
    return (
        grid.unionByName(traffic.select(*QUEUE_KEY, "hour", *LOAD), allowMissingColumns=True)
        .groupBy(*QUEUE_KEY, "hour")
        .agg(F.first("last", ignorenulls=True).alias("last"), *map(_total, LOAD))
        .withColumn("age_hours", age.cast("int"))
        .transform(_with_hour_of_week)
    )


def _total(name: str) -> Column:
    return F.coalesce(F.sum(name), F.lit(0)).alias(name)


def _with_hour_of_week(hours: DataFrame) -> DataFrame:
    return hours.withColumns({"weekday": weekday_of("hour"), "hour_of_day": hour_of_day("hour")})


def busiest_hours(hours: DataFrame) -> DataFrame:
    """What an hour of the week brings on average; `rank` 1 is the busiest of its queue."""
    by_load = Window.partitionBy(*QUEUE_KEY).orderBy(F.desc("enqueued"), "weekday", "hour_of_day")
    return (
        hours.groupBy(*QUEUE_KEY, "weekday", "hour_of_day")
        .agg(
            F.avg("enqueued").alias("enqueued"),
            F.avg("busy_seconds").alias("busy_seconds"),
            F.count("*").cast("int").alias("seen"),
        )
        .withColumn("rank", F.row_number().over(by_load))
    )


def forecast_week(hours: DataFrame, now: datetime.datetime | None = None) -> DataFrame:
    """The next week by the hour: jobs, seconds of work, and handlers that are needed at once.

    It begins after the last of the hours, or after the hour of `now` if that is later. For a queue
    whose `basis` is `TOO_LITTLE_DATA`, all of these are null.
    """
    of_queue = Window.partitionBy(*QUEUE_KEY)
    weight = F.pow(F.lit(0.5), F.col("age_hours") / HOURS_PER_WEEK / HALF_LIFE_WEEKS)
    alike = {
        "week": Window.partitionBy(*QUEUE_KEY, "weekday", "hour_of_day"),
        "day": Window.partitionBy(*QUEUE_KEY, "hour_of_day"),
    }
    means = {
        f"{basis}_{name}": F.sum(weight * F.col(name)).over(hours_alike)
        / F.sum(weight).over(hours_alike)
        for basis, hours_alike in alike.items()
        for name in LOAD
    }
    # In one table with the past hours, each coming hour finds those like it without a join.
    both = hours.unionByName(_future_hours(hours, now), allowMissingColumns=True)
    estimated = both.withColumns({**means, "change": _growth(of_queue), "basis": _basis(of_queue)})
    seconds = _by_basis("busy_seconds") * F.col("change")
    return estimated.where("age_hours is null").select(
        *QUEUE_KEY,
        "hour",
        (_by_basis("enqueued") * F.col("change")).alias("enqueued"),
        seconds.alias("busy_seconds"),
        F.ceil(seconds / 3600 / UTILISATION).cast("int").alias("handlers"),
        F.col("basis"),
    )


def _by_basis(name: str) -> Column:
    basis = F.col("basis")
    return F.when(basis == "week", F.col(f"week_{name}")).when(basis == "day", F.col(f"day_{name}"))


def _future_hours(hours: DataFrame, now: datetime.datetime | None) -> DataFrame:
    """The hours of the next week, for each queue. They have no age."""
    ahead = F.explode(F.sequence(F.lit(1), F.lit(HOURS_PER_WEEK))).alias("ahead")
    this_hour = 0 if now is None else int(now.timestamp()) // 3600 * 3600
    begin = F.greatest(F.unix_seconds("last"), F.lit(this_hour))
    hour = F.timestamp_seconds(begin + F.col("ahead") * 3600)
    queues = hours.select(*QUEUE_KEY, "last").distinct()
    return (
        queues.select("*", ahead)
        .select(*QUEUE_KEY, hour.alias("hour"))
        .transform(_with_hour_of_week)
    )


def _growth(of_queue: WindowSpec) -> Column:
    """How much larger the last week was than the one before."""
    week = F.floor(F.col("age_hours") / HOURS_PER_WEEK)
    last = F.sum(F.when(week == 0, F.col("busy_seconds"))).over(of_queue)
    before = F.sum(F.when(week == 1, F.col("busy_seconds"))).over(of_queue)
    growth = F.least(
        F.greatest(F.try_divide(last, before), F.lit(1 / LARGEST_CHANGE)), F.lit(LARGEST_CHANGE)
    )
    return F.coalesce(F.when(_hours_seen(of_queue) >= 2 * HOURS_PER_WEEK, growth), F.lit(1.0))


def _basis(of_queue: WindowSpec) -> Column:
    """What the forecast rests on."""
    seen = _hours_seen(of_queue)
    return F.when(seen >= HOURS_PER_WEEK, "week").when(seen >= 24, "day").otherwise(TOO_LITTLE_DATA)


def _hours_seen(of_queue: WindowSpec) -> Column:
    return F.count("age_hours").over(of_queue)
