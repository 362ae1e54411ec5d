"""A lake is the same in a session with other settings than Ackline's own."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet
import pyarrow.types
import pytest

from ackline.spark.lake import compaction
from tests.spark.histories import live_through
from tests.spark.lakeside import Lakeside, contents

FOREIGN = {
    "spark.sql.parquet.outputTimestampType": "INT96",
    "spark.sql.session.timeZone": "America/New_York",
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
    live_through(side.queues, side.clock, 10)
    every = -(-len([event for name in side.queues for event in side.queues[name].events()]) // 2)
    own, other = tmp_path / "own", tmp_path / "other"
    side.run(lake=own, reader=None, events_per_batch=every)

    foreign()
    ran = side.run(lake=other, reader=None, events_per_batch=every)
    side.queues.close()

    assert ran.compacted
    files = [file for file in Path(other).rglob("*.parquet") if not file.name.startswith(".")]
    found = {time for file in files for time in times_of(pyarrow.parquet.read_schema(file))}
    assert {kind for _, kind in found} == {"timestamp[us, tz=UTC]"}
    assert {"at", "hour", "ended_at", "examples.at"} <= {name for name, _ in found}
    assert contents(own) == contents(other)
