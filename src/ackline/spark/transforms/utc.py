"""Days and hours in UTC, whatever time zone the Spark session has.

Spark's own functions use the session's zone, which the session's owner chooses.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

HOUR, DAY = 3600, 86_400
"""Seconds."""


def day_of(at: str) -> Column:
    """The day of a time."""
    return F.date_from_unix_date(F.floor(F.unix_seconds(at) / DAY).cast("int"))


def hour_of(at: str) -> Column:
    """The beginning of the hour of a time."""
    return F.timestamp_seconds(F.unix_seconds(at) - F.pmod(F.unix_seconds(at), F.lit(HOUR)))


def weekday_of(at: str) -> Column:
    """1 is Monday."""
    return F.weekday(day_of(at)) + 1


def hour_of_day(at: str) -> Column:
    """From 0 to 23."""
    return F.floor(F.pmod(F.unix_seconds(at), F.lit(DAY)) / HOUR).cast("int")
