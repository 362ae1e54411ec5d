"""Gold: small tables that answer questions, each in plain files that any reader of Parquet opens.

Each day has one file, which is replaced as a whole. Only days of which new events have come are
rebuilt, from the parts that batches have left.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Sequence

import pyarrow
import pyarrow.compute
from pyspark.sql import DataFrame, SparkSession

from ackline.spark.lake.lake import ERRORS, TRAFFIC, WORKERS, Lake
from ackline.spark.lake.reading import as_arrow, read_parts, read_tables
from ackline.spark.pipelines import clusters, traffic, workers
from ackline.spark.pipelines.forecast import busiest, every_hour, forecast
from ackline.spark.pipelines.objectives import attainment

GOLD = "gold"
BY_DAY = ("hourly", "daily", "slo", "workers", "errors")
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
        mark, batches = self._lake.require(), self._lake.batches
        if not batches:
            return []
        all_anew = mark.objectives != mark.published_with
        since = -1 if all_anew else mark.published
        days = sorted({day for one in batches if one.number > since for day in one.days})
        if days:
            self._publish(days, all_anew)
            self._look_ahead(datetime.datetime.fromtimestamp(now, datetime.UTC))
            last = batches[-1].number
            self._lake.change(published=last, published_with=mark.objectives)
        return days

    def _publish(self, days: Sequence[datetime.date], all_anew: bool) -> None:
        read_days = None if all_anew else days
        hourly = traffic.add_up(self._parts(TRAFFIC, read_days), ("day", "hour", *traffic.GROUP))
        hourly = hourly.persist()
        try:
            for name, frame in self._by_day(hourly, read_days).items():
                self._replace(name, frame, days)
        finally:
            hourly.unpersist()

    def _look_ahead(self, now: datetime.datetime) -> None:
        hours = every_hour(self._recent("hourly", now)).persist()
        try:
            for name, frame in (("busiest", busiest(hours)), ("forecast", forecast(hours, now))):
                self._lake.folder.write_table(as_arrow(frame), GOLD, name, "all.parquet")
        finally:
            hours.unpersist()

    def _by_day(
        self, hourly: DataFrame, days: Sequence[datetime.date] | None
    ) -> dict[str, DataFrame]:
        by_hour, by_day = ("day", "hour", *traffic.GROUP), ("day", *traffic.GROUP)
        by_queue = ("day", "tenant", "queue")
        objectives = self._lake.require().objectives
        of_worker, of_error = ("day", *workers.GROUP), ("day", *clusters.GROUP)
        return {
            "hourly": traffic.figures(hourly, by_hour),
            "daily": traffic.figures(traffic.add_up(hourly, by_day), by_day),
            "slo": attainment(traffic.add_up(hourly, by_queue), by_queue, objectives),
            "workers": workers.figures(
                workers.add_up(self._parts(WORKERS, days), of_worker), of_worker
            ),
            "errors": clusters.add_up(self._parts(ERRORS, days), of_error),
        }

    def _parts(
        self, name: tuple[str, ...], days: Sequence[datetime.date] | None = None
    ) -> DataFrame:
        return read_parts(self._spark, self._lake, name, days)

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
