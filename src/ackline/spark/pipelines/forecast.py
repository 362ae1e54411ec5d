"""Which hours are busy, and how many handlers the next week needs.

A week is taken to be like the weeks before it, the latest counting most, and as much larger or
smaller as the last week was than the one before. With less than a week to look at, a day is taken
to be like the day before; with less than a day, every hour like the last ones.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

QUEUE = ("tenant", "queue")

UTILISATION = 0.7
"""How busy handlers may be: above it, waiting grows out of proportion."""

HALF_LIFE_WEEKS = 2.0
"""After so many weeks an hour counts half."""

LARGEST_CHANGE = 2.0
"""How much a week is let grow, or shrink, by what the last two tell."""

HOURS = 7 * 24


def every_hour(traffic: DataFrame) -> DataFrame:
    """Each hour of each queue, from its first to the last of all; quiet hours have zeros.

    `age_hours` counts back from the last.
    """
    by_hour = traffic.groupBy(*QUEUE, "hour").agg(
        F.sum("enqueued").alias("enqueued"), F.sum("busy_seconds").alias("busy_seconds")
    )
    each = F.explode(F.sequence("first", "last", F.expr("interval 1 hour"))).alias("hour")
    age = (F.unix_seconds("last") - F.unix_seconds("hour")) / 3600
    grid = (
        by_hour.groupBy(*QUEUE)
        .agg(F.min("hour").alias("first"))
        .crossJoin(by_hour.agg(F.max("hour").alias("last")))
        .select(*QUEUE, "last", each)
        .withColumn("age_hours", age.cast("int"))
    )
    return (
        grid.join(by_hour, [*QUEUE, "hour"], "left")
        .fillna(0, ["enqueued", "busy_seconds"])
        .withColumn("weekday", F.weekday("hour") + 1)
        .withColumn("hour_of_day", F.hour("hour"))
    )


def busiest(hours: DataFrame) -> DataFrame:
    """What an hour of the week brings on average; `rank` 1 is the busiest of its queue."""
    by_load = Window.partitionBy(*QUEUE).orderBy(F.desc("enqueued"), "weekday", "hour_of_day")
    return (
        hours.groupBy(*QUEUE, "weekday", "hour_of_day")
        .agg(
            F.avg("enqueued").alias("enqueued"),
            F.avg("busy_seconds").alias("busy_seconds"),
            F.count("*").cast("int").alias("seen"),
        )
        .withColumn("rank", F.row_number().over(by_load))
    )


def forecast(hours: DataFrame) -> DataFrame:
    """The next week by the hour: jobs, seconds of work, and handlers that are needed at once."""
    weight = F.pow(F.lit(0.5), F.col("age_hours") / HOURS / HALF_LIFE_WEEKS)
    work = weight * F.col("busy_seconds")
    jobs = weight * F.col("enqueued")
    last_day = F.col("age_hours") < 24
    shapes = {
        "week": hours.groupBy(*QUEUE, "weekday", "hour_of_day"),
        "day": hours.groupBy(*QUEUE, "hour_of_day"),
        "hour": hours.where(last_day).groupBy(*QUEUE),
    }
    coming = _coming(hours).join(_change(hours), [*QUEUE])
    for name, shape in shapes.items():
        means = shape.agg(
            (F.sum(jobs) / F.sum(weight)).alias(f"{name}_jobs"),
            (F.sum(work) / F.sum(weight)).alias(f"{name}_work"),
        )
        keys = [key for key in (*QUEUE, "weekday", "hour_of_day") if key in means.columns]
        coming = coming.join(means, keys, "left")
    seconds = _by_basis("work") * F.col("change")
    return coming.select(
        *QUEUE,
        "hour",
        (_by_basis("jobs") * F.col("change")).alias("enqueued"),
        seconds.alias("busy_seconds"),
        F.ceil(seconds / 3600 / UTILISATION).cast("int").alias("handlers"),
        F.col("basis"),
    )


def _by_basis(what: str) -> Column:
    basis = F.col("basis")
    return (
        F.when(basis == "week", F.col(f"week_{what}"))
        .when(basis == "day", F.col(f"day_{what}"))
        .otherwise(F.col(f"hour_{what}"))
    )


def _coming(hours: DataFrame) -> DataFrame:
    """The hours of the next week, of each queue."""
    ahead = F.explode(F.sequence(F.lit(1), F.lit(HOURS))).alias("ahead")
    hour = F.timestamp_seconds(F.unix_seconds("last") + F.col("ahead") * 3600)
    return (
        hours.select(*QUEUE, "last")
        .distinct()
        .select(*QUEUE, "last", ahead)
        .withColumn("hour", hour)
        .withColumn("weekday", F.weekday("hour") + 1)
        .withColumn("hour_of_day", F.hour("hour"))
        .drop("last", "ahead")
    )


def _change(hours: DataFrame) -> DataFrame:
    """How much larger the last week was than the one before, and what the forecast rests on."""
    week = F.floor(F.col("age_hours") / HOURS)
    last = F.sum(F.when(week == 0, F.col("busy_seconds")))
    before = F.sum(F.when(week == 1, F.col("busy_seconds")))
    seen = F.count("*")
    growth = F.least(
        F.greatest(F.try_divide(last, before), F.lit(1 / LARGEST_CHANGE)), F.lit(LARGEST_CHANGE)
    )
    return hours.groupBy(*QUEUE).agg(
        F.coalesce(F.when(seen >= 2 * HOURS, growth), F.lit(1.0)).alias("change"),
        F.when(seen >= HOURS, "week").when(seen >= 24, "day").otherwise("hour").alias("basis"),
    )
