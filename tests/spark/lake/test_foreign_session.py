"""A lake is the same in a session with other settings than Ackline's own."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow.parquet
import pyarrow.types
import pytest
from tests.spark.support.job_histories import all_events, live_through
from tests.spark.support.lake_and_store import DAY, Lakeside, contents, counted, counted_in

from ackline.spark.lake import compaction
from ackline.spark.lake.lake import Lake
from ackline.spark.reports.report_data import collect_report

pytestmark = pytest.mark.ci

FOREIGN = {
    "spark.sql.parquet.outputTimestampType": "INT96",
    # Its hours are of another day at times, and not whole ones.
    "spark.sql.session.timeZone": "Asia/Kolkata",
}


@pytest.fixture
def foreign(spark):
    def set_up():
        for name, value in FOREIGN.items():
            spark.conf.set(name, value)

    before = {name: spark.conf.get(name) for name in FOREIGN}
    yield set_up
    for name, value in before.items():
        spark.conf.set(name, value)


def times_of(schema, path=""):
    """Every time in a table, also of lists of records, by its name."""
    for field in schema:
        kind = field.type.value_type if pyarrow.types.is_list(field.type) else field.type
        if pyarrow.types.is_struct(kind):
            yield from times_of(kind, f"{path}{field.name}.")
        elif pyarrow.types.is_timestamp(kind):
            yield f"{path}{field.name}", str(kind)


def test_times_of_a_lake_are_utc_in_any_session(spark, foreign, tmp_path, monkeypatch):
    monkeypatch.setattr(compaction, "TOGETHER", 2)
    side = Lakeside(spark, tmp_path)
    side.clock.advance(side.clock.now() // DAY * DAY + 20.2 * 3600 - DAY - side.clock.now())
    live_through(side.queues, side.clock, 10)
    side.queues["stuck"].enqueue(1)
    side.clock.advance(61)
    events = all_events(side.queues)
    every = -(-len(events) // 2)
    side.run(reader=None, events_per_batch=every)
    report, other = collect_report(spark, side.lake), tmp_path / "other"

    foreign()
    ran = side.run(lake=other, reader=None, events_per_batch=every)
    elsewhere = collect_report(spark, Lake(str(other)))
    side.queues.close()

    assert ran.compacted
    files = [file for file in Path(other).rglob("*.parquet") if not file.name.startswith(".")]
    found = {time for file in files for time in times_of(pyarrow.parquet.read_schema(file))}
    assert {kind for _, kind in found} == {"timestamp[us, tz=UTC]"}
    assert {"at", "hour", "ended_at", "examples.at"} <= {name for name, _ in found}
    assert contents(other) == contents(side.path)
    assert counted_in(side.gold("hourly")) == counted(events)
    assert msgspec.structs.replace(elsewhere, lake=report.lake) == report
    assert [row["late"] for row in report.slo if row["queue"] == "stuck"] == [1]
