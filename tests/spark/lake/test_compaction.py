"""Batches put together, and killed within every step of it. Files alone: Spark is not needed."""

from __future__ import annotations

import itertools
import os
import shutil
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pyarrow
import pyarrow.parquet
import pytest
from tests.spark.support.lake_and_store import Died

from ackline.spark.errors import LakeClaimed, LakeDamaged
from ackline.spark.lake import compaction, folder, placing
from ackline.spark.lake.batch_log import Batch
from ackline.spark.lake.compaction import Compaction, Note
from ackline.spark.lake.counts import require_whole
from ackline.spark.lake.expiry import drop_expired
from ackline.spark.lake.folder import Folder
from ackline.spark.lake.lake import Lake
from ackline.spark.lake.layout import (
    COMPACTING,
    COMPACTION,
    EVENTS,
    KEPT_BY_BATCH,
    MARK,
    SUMMARIES,
    batch_folder,
)
from ackline.spark.lake.mark import SCHEMA, Mark
from ackline.spark.lake.running import sweep
from ackline.spark.paths import open_folder

BATCHES = (0, 1)
ROWS = 6
ALL = ROWS * len(BATCHES)
HOUR = 3600.0
NO_SPARK: Any = None
"""Only to write aside would it be needed."""


def fill(lake, *folder, value, rows=ROWS):
    table = pyarrow.table({"x": [value] * rows})
    lake.folder.write_table(table, *folder, "part-0.parquet")


@pytest.fixture
def lake(tmp_path):
    """What is left by a run that was killed when it had noted what to do."""
    lake = Lake(str(tmp_path / "lake"))
    lake.folder.write_json(Mark(schema=SCHEMA, store="x", tenant="t", id="i", published=1), MARK)
    for number in BATCHES:
        lake.log.add(of_rows(ROWS, number=number))
        for name in KEPT_BY_BATCH:
            fill(lake, *batch_folder(name, number), value="old")
    for name in KEPT_BY_BATCH:
        fill(lake, COMPACTING, "mine", *name, value="new", rows=ALL)
    note_of(lake, of_rows(ALL, number=1, level=1, first=0), KEPT_BY_BATCH)
    return lake


def of_rows(rows, **more):
    summaries = {name[-1]: rows for name in SUMMARIES}
    return Batch(events=rows, ended=rows, days=[], last_at=1.0, summary_rows=summaries, **more)


def note_of(lake, result, names):
    rows = {"/".join(name): ALL for name in names}
    note = Note(batches=list(BATCHES), result=result, rows=rows, aside="mine")
    lake.folder.write_json(note, COMPACTION)


def tables(lake):
    return {
        (name, number): pyarrow.parquet.read_table(lake.table(name, number))["x"].to_pylist()
        for name in KEPT_BY_BATCH
        for number in lake.folder.batches(*name)
    }


def as_read(lake):
    """What reports and audits find, in each table."""
    return [
        [
            value
            for place in require_whole(lake, name, lake.log.batches)
            for value in lake.folder.dataset(*place).to_table()["x"].to_pylist()
        ]
        for name in KEPT_BY_BATCH
    ]


WHOLE = ([["old"] * ALL] * len(KEPT_BY_BATCH), [["new"] * ALL] * len(KEPT_BY_BATCH))
"""What they may find: all of it, before or after."""


class Changes:
    """Everything that changes a file, one after the other; something happens before the nth."""

    def __init__(self, monkeypatch, nth, happens):
        self.left = nth
        self.happens = happens
        for owner, name in ((placing, "move"), (placing, "_link"), (os, "unlink")):
            monkeypatch.setattr(owner, name, partial(self.make, getattr(owner, name)))
        monkeypatch.setattr(placing, "discard", self.discard)

    def make(self, change, *arguments, **options):
        self.left -= 1
        if self.left == -1:
            self.happens()
        return change(*arguments, **options)

    def discard(self, _files, path):
        if os.path.isdir(path):
            shutil.rmtree(path)
        elif os.path.exists(path):
            os.unlink(path)

    @property
    def over(self):
        """Whether there were fewer."""
        return self.left >= 0


def die():
    raise Died


def test_killed_within_any_step_nothing_is_lost(lake, tmp_path):
    expected = {(name, 1): ["new"] * ALL for name in KEPT_BY_BATCH}
    for nth in itertools.count():
        path = str(tmp_path / f"killed-{nth}")
        shutil.copytree(lake.folder.path, path)
        with pytest.MonkeyPatch.context() as patches, suppress(Died):
            changes = Changes(patches, nth, die)
            Compaction(NO_SPARK, Lake(path)).finish()
        again = Lake(path)
        assert as_read(again) in WHOLE, nth
        sweep(again)
        Compaction(NO_SPARK, again).finish()

        assert tables(again) == expected, nth
        assert [(batch.number, batch.events) for batch in again.log.batches] == [(1, 12)]
        assert again.folder.names() == ["bronze", "lake.json", "log", "parts", "silver"]
        if changes.over:
            break
    assert nth > 40


def test_killed_within_any_step_in_an_object_store_nothing_is_lost(lake):
    """Arrow's stand-in for one: it has no renames."""
    for nth in itertools.count():
        files, root = open_folder("mock:///lake")
        for name, contents in snapshot(lake.folder.path).items():
            files.create_dir(f"{root}/{name}".rpartition("/")[0])
            with files.open_output_stream(f"{root}/{name}") as file:
                file.write(contents)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(folder, "open_folder", lambda _path, there=(files, root): there)
            copy = Lake("mock:///lake")
        looks = itertools.count()

        def check_or_die(nth=nth, looks=looks):
            if next(looks) == nth:
                die()

        copy.folder.check = check_or_die
        with suppress(Died):
            Compaction(NO_SPARK, copy).finish()
        assert as_read(copy) in WHOLE, nth
        copy.folder.check = placing.check_nothing
        over = next(looks) <= nth
        Compaction(NO_SPARK, copy).finish()

        assert as_read(copy) == WHOLE[1]
        assert [(batch.number, batch.aside) for batch in copy.log.batches] == [(1, "")]
        if over:
            break
    assert nth > 20


class Claim:
    """That of a run that may be taken for dead; and what the lake was like then."""

    def __init__(self):
        self.lost = False
        self.found = {}

    def check(self):
        if self.lost:
            raise LakeClaimed("another run has taken over")


def snapshot(path):
    """All files of a folder and what they have."""
    files = (file for file in Path(path).rglob("*") if file.is_file())
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


def put_together_again(lake):
    """What the successor goes on to do: those that were put together become one with the next."""
    sweep(lake)
    Compaction(NO_SPARK, lake).finish()
    lake.log.add(msgspec.structs.replace(lake.log.batches[-1], level=2))


def test_one_that_wakes_up_when_the_other_is_done_changes_nothing(lake, tmp_path):
    for nth in itertools.count():
        path = str(tmp_path / f"asleep-{nth}")
        shutil.copytree(lake.folder.path, path)
        claim, looks = Claim(), itertools.count()

        def check_asleep(nth=nth, path=path, claim=claim, looks=looks):
            if next(looks) == nth:
                claim.lost = True
                put_together_again(Lake(path))
                claim.found = snapshot(path)
            claim.check()

        with suppress(LakeClaimed):
            Compaction(NO_SPARK, Lake(path, check_asleep)).finish()

        if not claim.lost:
            break
        sweep(Lake(path))
        assert snapshot(path) == claim.found, nth
    assert nth > 15


def test_one_that_sleeps_within_a_change_loses_nothing_of_the_others(lake, tmp_path):
    """Between the look and the change nobody can look: there it must not matter."""
    expected = {(name, 1): ["new"] * ALL for name in KEPT_BY_BATCH}
    for nth in itertools.count():
        path = str(tmp_path / f"within-{nth}")
        shutil.copytree(lake.folder.path, path)
        claim = Claim()

        def take_over(path=path, claim=claim):
            claim.lost = True
            Compaction(NO_SPARK, Lake(path)).finish()

        with pytest.MonkeyPatch.context() as patches, suppress(LakeClaimed, FileNotFoundError):
            changes = Changes(patches, nth, take_over)
            Compaction(NO_SPARK, Lake(path, claim.check)).finish()

        again = Lake(path)
        sweep(again)
        Compaction(NO_SPARK, again).finish()
        assert tables(again) == expected, nth
        assert as_read(again) == WHOLE[1], nth
        assert [(batch.number, batch.events) for batch in again.log.batches] == [(1, 12)]
        if changes.over:
            break
    assert nth > 40


@pytest.mark.parametrize("spoil", ["folder", "file"])
def test_nothing_is_removed_unless_its_successor_is_there(lake, spoil):
    before = tables(lake)
    gone = [] if spoil == "folder" else ["part-0.parquet"]
    lake.folder.remove(COMPACTING, "mine", *EVENTS, *gone)

    with pytest.raises(LakeDamaged, match="removed"):
        Compaction(NO_SPARK, lake).finish()

    assert tables(lake) == before
    assert as_read(lake) == WHOLE[0]


def test_what_a_killed_run_left_of_dropped_batches_goes_with_the_merge(lake):
    for number in BATCHES:
        lake.log.add(of_rows(ROWS, number=number, dropped=True))
    note_of(lake, of_rows(ALL, number=1, level=1, first=0, dropped=True), SUMMARIES)

    Compaction(NO_SPARK, lake).finish()

    assert tables(lake) == {(name, 1): ["new"] * ALL for name in SUMMARIES}


class Planned(Compaction):
    """Only notes what it would put together."""

    def __init__(self, lake):
        super().__init__(NO_SPARK, lake)
        self.planned = []

    def _put_together(self, batches):
        self.planned.append([batch.number for batch in batches])
        for batch in batches:
            self._lake.log.forget(batch.number)


def log_of(lake, times, dropped=()):
    lake.folder.remove(COMPACTION)
    lake.folder.remove("log")
    lake.change(published=len(times))
    for number, at in enumerate(times):
        gone = number in dropped
        lake.log.add(Batch(number=number, events=1, ended=0, days=[], last_at=at, dropped=gone))
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


class TestWhatIsTooOld:
    """It is always the first of what is left: within a hole nobody can follow a job."""

    def test_a_batch_without_events_is_as_old_as_the_next(self, lake):
        log_of(lake, [0.0, 3000.0, 3010.0])
        lake.log.add(Batch(number=0, events=0, ended=0, days=[], last_at=0.0))

        assert drop_expired(lake, 500.0, now=3100.0) == 0

    @pytest.mark.parametrize(
        ("times", "before", "dropped"),
        [
            ([10.0, 20.0, 30.0, 40.0], 25.0, [0, 1]),
            ([3600.0, 10.0, 3010.0, 3020.0], 500.0, [0, 1]),
            ([3000.0, 10.0, 3010.0, 3020.0], 500.0, []),
            ([3000.0, 10.0, 3010.0, 3020.0], 3005.0, [0, 1]),
            ([10.0, 4e9, 30.0, 40.0], 25.0, [0]),
            ([10.0, 4e9, 30.0, 40.0], 35.0, [0, 1, 2]),
            ([4e9, 3000.0, 3010.0], 500.0, []),
            ([10.0, 20.0], 3000.0, [0]),
            ([10.0, 4e9], 3000.0, [0]),
        ],
        ids=[
            "older ones",
            "the clock was set back an hour",
            "the clock was in 1970 for a moment",
            "and what was taken in then grows old with the rest",
            "the clock was in 2099 for a moment",
            "and that keeps nothing for ever",
            "the clock was in 2099 when the lake was made",
            "never the last",
            "nor one from the future",
        ],
    )
    def test_by_their_order_whatever_the_clock_said(self, lake, times, before, dropped):
        log_of(lake, times)

        drop_expired(lake, before, now=3100.0)

        assert [batch.number for batch in lake.log.batches if batch.dropped] == dropped

    def test_what_is_gone_is_not_looked_at_again(self, lake, monkeypatch):
        log_of(lake, [10.0, 20.0, 3010.0, 3020.0])
        drop_expired(lake, 500.0, now=3100.0)
        assert lake.folder.batches(*EVENTS) == []
        monkeypatch.setattr(Folder, "exists", None)
        monkeypatch.setattr(placing, "remove", None)

        drop_expired(lake, 500.0, now=3100.0)

    def test_what_a_killed_run_has_left_goes(self, lake):
        log_of(lake, [10.0, 3010.0, 3020.0], dropped=(0,))

        drop_expired(lake, 500.0, now=3100.0)

        assert lake.folder.batches(*EVENTS) == [1]
