"""Gold: small tables that answer questions, each in plain files that any reader of Parquet opens.

Each day has one file, which is replaced as a whole. Only days of which new events have come are
rebuilt, from the summaries that batches have left.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Sequence

import pyarrow
import pyarrow.compute
from pyspark.sql import DataFrame, SparkSession

from ackline.spark.lake.batch_log import Batch
from ackline.spark.lake.lake import Lake
from ackline.spark.lake.layout import ERRORS, GOLD, TRAFFIC, WORKERS, Table
from ackline.spark.lake.reading import as_arrow, read_summaries, read_tables
from ackline.spark.transforms import error_groups, traffic, workers
from ackline.spark.transforms.forecast import busiest_hours, forecast_week, hourly_grid
from ackline.spark.transforms.slo import attainment

SLO = "slo"
"""The table that depends on the objectives of a lake."""
BY_DAY = ("hourly", "daily", "latency", SLO, "workers", "errors")
"""Tables with a file for each day."""
DAY = re.compile(r"\d{4}-\d\d-\d\d\.parquet")
"""The names of those files."""
OF_ALL = ("busiest", "forecast")
"""Tables of one file, rebuilt each time."""

RECENT = datetime.timedelta(weeks=8)
"""How far back the usual load and the forecast look."""


class Publisher:
    """Brings the gold tables of a lake up to date with all complete batches."""

    def __init__(self, spark: SparkSession, lake: Lake) -> None:
        self._spark = spark
        self._lake = lake

    def publish(self, now: float) -> list[datetime.date]:
        """Rebuild what has changed since the last time; returns the days that were rebuilt.

        The forecast begins now, by the store's clock.
        If this is interrupted, the next run starts over and writes the same.
        """
        mark, batches = self._lake.require(), self._lake.log.batches
        days, judged_anew = days_of(batches, mark.published), list[datetime.date]()
        if days:
            self._publish(days)
            self._look_ahead(datetime.datetime.fromtimestamp(now, datetime.UTC))
        if mark.objectives != mark.published_with:
            judged_anew = sorted(set(days_of(batches)).difference(days))
            self._judge(judged_anew)
        if days or judged_anew:
            last = batches[-1].number
            self._lake.change(published=last, published_with=mark.objectives)
        return sorted([*days, *judged_anew])

    def _publish(self, days: Sequence[datetime.date]) -> None:
        hourly = traffic.merge(self._summaries(TRAFFIC, days), ("day", "hour", *traffic.GROUP_KEY))
        hourly = hourly.persist()
        try:
            for name, frame in self._by_day(hourly, days).items():
                self._replace(name, frame, days)
        finally:
            hourly.unpersist()

    def _judge(self, days: Sequence[datetime.date]) -> None:
        """Judge days by other objectives, which no other table depends on."""
        if days:
            self._replace(SLO, self._slo(self._summaries(TRAFFIC, days)), days)

    def _slo(self, waits: DataFrame) -> DataFrame:
        by_queue = ("day", "tenant", "queue")
        objectives = self._lake.require().objectives
        return attainment(traffic.merge(waits, by_queue), by_queue, objectives)

    def _look_ahead(self, now: datetime.datetime) -> None:
        hours = hourly_grid(self._recent("hourly", now)).persist()
        try:
            for name, frame in (
                ("busiest", busiest_hours(hours)),
                ("forecast", forecast_week(hours, now)),
            ):
                self._lake.folder.write_table(as_arrow(frame), GOLD, name, "all.parquet")
        finally:
            hours.unpersist()

    def _by_day(self, hourly: DataFrame, days: Sequence[datetime.date]) -> dict[str, DataFrame]:
        by_hour, by_day = ("day", "hour", *traffic.GROUP_KEY), ("day", *traffic.GROUP_KEY)
        of_worker, of_error = ("day", *workers.GROUP_KEY), ("day", *error_groups.GROUP_KEY)
        return {
            "hourly": traffic.finalize(hourly, by_hour),
            "daily": traffic.finalize(traffic.merge(hourly, by_day), by_day),
            "latency": traffic.latency_by_level(hourly),
            SLO: self._slo(hourly),
            "workers": workers.finalize(
                workers.merge(self._summaries(WORKERS, days), of_worker), of_worker
            ),
            "errors": error_groups.merge(self._summaries(ERRORS, days), of_error),
        }

    def _summaries(self, name: Table, days: Sequence[datetime.date]) -> DataFrame:
        return read_summaries(self._spark, self._lake, name, days)

    def _recent(self, name: str, now: datetime.datetime) -> DataFrame:
        """The last weeks of a table, so that the cost does not grow with the lake."""
        files = recent_days(self._lake.folder.names(GOLD, name), now)
        tables = [(GOLD, name, one) for one in files]
        return read_tables(self._spark, self._lake.folder, *tables)

    def _replace(self, name: str, frame: DataFrame, days: Sequence[datetime.date]) -> None:
        """One file for each day, even for a day that has no rows any more."""
        table = as_arrow(frame)
        for day in days:
            of_day = table.filter(pyarrow.compute.equal(table["day"], pyarrow.scalar(day)))
            self._lake.folder.write_table(of_day, GOLD, name, f"{day}.parquet")


def days_of(batches: Iterable[Batch], after: int = -1) -> list[datetime.date]:
    """The days on which something happened, according to the batches after this one."""
    return sorted({day for batch in batches if batch.number > after for day in batch.days})


def recent_days(files: Iterable[str], now: datetime.datetime) -> list[str]:
    """The files of the last weeks; days in the future come from a wrong clock.

    >>> recent_days(["2026-11-15.parquet", "2026-11-16.parquet", "2099-01-01.parquet"],
    ...             datetime.datetime(2026, 11, 16))
    ['2026-11-15.parquet', '2026-11-16.parquet']
    """
    # A hidden file is what a killed process was writing; others are not ours.
    days = {datetime.date.fromisoformat(name[:10]): name for name in files if DAY.fullmatch(name)}
    # Clocks may be a day ahead of ours.
    past = sorted(day for day in days if day <= now.date() + datetime.timedelta(days=1))
    past = past or sorted(days)
    return [days[day] for day in past if day > past[-1] - RECENT]
