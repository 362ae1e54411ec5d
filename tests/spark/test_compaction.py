"""Batches put together, and killed within every step of it. Files alone: Spark is not needed."""

from __future__ import annotations

import os
import shutil
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from ackline.spark.errors import LakeDamaged
from ackline.spark.lake import compaction
from ackline.spark.lake.compaction import ASIDE, NOTE, Compaction, Note
from ackline.spark.lake.folder import Folder
from ackline.spark.lake.lake import EVENTS, KEPT_BY_BATCH, MARK, SCHEMA, Batch, Lake, Mark
from tests.spark.lakeside import Died

BATCHES = (0, 1)
ROWS = 3
HOUR = 3600.0
NO_SPARK: Any = None
"""Only to write aside would it be needed."""


def fill(lake, *folder, value):
    for number in range(2):
        table = pyarrow.table({"x": [value] * ROWS})
        lake.folder.write_table(table, *folder, f"part-{number}.parquet")


@pytest.fixture
def lake(tmp_path):
    """What is left by a run that was killed when it had noted what to do."""
    lake = Lake(str(tmp_path / "lake"))
    lake.folder.write_json(Mark(schema=SCHEMA, store="x", tenant="t", published=1), MARK)
    for number in BATCHES:
        lake.log(Batch(number=number, events=6, ended=6, days=[], last_at=1.0))
        for name in KEPT_BY_BATCH:
            fill(lake, *lake.parts(name, number), value="old")
    for name in KEPT_BY_BATCH:
        fill(lake, ASIDE, *name, value="new")
    result = Batch(number=1, events=12, ended=12, days=[], last_at=1.0, level=1, first=0)
    rows = {"/".join(name): 2 * ROWS for name in KEPT_BY_BATCH}
    lake.folder.write_json(Note(batches=list(BATCHES), result=result, rows=rows), NOTE)
    return lake


def tables(lake):
    return {
        (name, number): pyarrow.parquet.read_table(lake.table(name, number))["x"].to_pylist()
        for name in KEPT_BY_BATCH
        for number in lake.folder.batches(*name)
    }


class DyingFolder(Folder):
    """A folder whose process dies after so many files were written or removed."""

    def __init__(self, path, steps):
        super().__init__(path)
        self.steps = steps

    def _step(self):
        self.steps -= 1
        if self.steps < 0:
            raise Died

    def remove(self, *parts):
        path = self._own(*parts)
        for above, _, names in os.walk(path, topdown=False):
            # Data first: what is left of a folder need not look like half of one.
            for name in sorted(names, key=lambda name: not name.endswith(".parquet")):
                self._step()
                os.unlink(f"{above}/{name}")
        self._step()
        super().remove(*parts)

    def copy(self, source, target):
        for name in self.names(*source):
            self._step()
            os.makedirs(self._own(*target), exist_ok=True)
            shutil.copyfile(self._own(*source, name), self._own(*target, name))

    def write_json(self, value, *parts):
        self._step()
        super().write_json(value, *parts)


def finish_and_die(path, steps):
    """Returns whether it was done before it could be killed."""
    lake = Lake(path)
    lake.folder = DyingFolder(path, steps)
    try:
        Compaction(NO_SPARK, lake).finish()
    except Died:
        return False
    return True


def test_killed_within_any_step_nothing_is_lost(lake, tmp_path):
    expected = {(name, 1): ["new"] * 2 * ROWS for name in KEPT_BY_BATCH}
    steps, done = 0, False
    while not done:
        path = str(tmp_path / f"killed-{steps}")
        shutil.copytree(lake.folder.path, path)
        done = finish_and_die(path, steps)
        again = Lake(path)
        Compaction(NO_SPARK, again).finish()

        assert tables(again) == expected, steps
        assert [(batch.number, batch.events) for batch in again.batches] == [(1, 12)]
        assert again.folder.names() == ["bronze", "lake.json", "log", "parts", "silver"]
        steps += 1
    assert steps > 50


@pytest.mark.parametrize("spoil", ["folder", "file"])
def test_nothing_is_removed_unless_its_successor_is_there(lake, spoil):
    before = tables(lake)
    gone = [] if spoil == "folder" else ["part-0.parquet"]
    lake.folder.remove(ASIDE, *EVENTS, *gone)

    with pytest.raises(LakeDamaged, match="Nothing was removed"):
        Compaction(NO_SPARK, lake).finish()

    assert tables(lake) == before


class Planned(Compaction):
    """Only notes what it would put together."""

    def __init__(self, lake):
        super().__init__(NO_SPARK, lake)
        self.planned = []

    def _put_together(self, batches):
        self.planned.append([batch.number for batch in batches])
        for batch in batches:
            self._lake.forget(batch.number)


def log_of(lake, times, dropped=()):
    lake.folder.remove(NOTE)
    lake.folder.remove("log")
    lake.change(published=len(times))
    for number, at in enumerate(times):
        gone = number in dropped
        lake.log(Batch(number=number, events=1, ended=0, days=[], last_at=at, dropped=gone))
    return Planned(lake)


class TestWhatIsPutTogether:
    @pytest.fixture(autouse=True)
    def three(self, monkeypatch):
        monkeypatch.setattr(compaction, "TOGETHER", 3)

    def test_the_batches_of_a_day(self, lake):
        tidy = log_of(lake, [number * HOUR for number in range(8)])

        tidy.compact()

        assert tidy.planned == [[0, 1, 2], [3, 4, 5]]

    def test_not_those_of_several_days(self, lake):
        """They would be too old together only when the last of them is."""
        tidy = log_of(lake, [0.0, 20 * HOUR, 40 * HOUR, 41 * HOUR, 42 * HOUR, 99 * HOUR])

        tidy.compact()

        assert tidy.planned == [[1, 2, 3]]

    def test_not_those_that_have_events_with_those_that_have_none(self, lake):
        tidy = log_of(lake, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0], dropped=(0, 1))

        tidy.compact()

        assert tidy.planned == [[2, 3, 4]]
