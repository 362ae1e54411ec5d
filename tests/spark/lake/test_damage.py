"""Files of a lake that are missing or broken are named before any figure is made. Without Spark."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.errors import AnalysisException, PySparkException
from tests.spark.lake.test_compaction import NO_SPARK, ROWS, fill

import ackline
from ackline.spark.audit import run
from ackline.spark.audit.lake_history import read_bronze, retained_batches
from ackline.spark.errors import LakeClaimed, LakeDamaged
from ackline.spark.lake.batch_log import Batch
from ackline.spark.lake.compaction import Compaction
from ackline.spark.lake.counts import require_whole
from ackline.spark.lake.damage import naming_damage_in_spark
from ackline.spark.lake.lake import Lake
from ackline.spark.lake.layout import EVENTS, JOBS, KEPT_BY_BATCH, TRAFFIC, batch_folder
from ackline.spark.lake.reading import MOST_LOOKS, look_again, read_summaries, read_tables
from ackline.spark.reports import report_data

SOUND: Any = object()
"""What is found when nothing is missing."""

SUMMARIES = {"traffic": ROWS, "workers": ROWS, "errors": ROWS}


@pytest.fixture
def lake(tmp_path):
    """One of two batches."""
    lake = Lake(str(tmp_path / "lake"))
    for number in range(2):
        lake.log.add(
            Batch(
                number=number, events=ROWS, ended=ROWS, days=[], last_at=1.0, summary_rows=SUMMARIES
            )
        )
        for name in KEPT_BY_BATCH:
            fill(lake, *batch_folder(name, number), value="x")
    return lake


def empty(file):
    file.write_bytes(b"")


def truncate(file):
    os.truncate(file, 50)


def scribble(file):
    """Over the footer, whose length is still right."""
    contents = bytearray(file.read_bytes())
    contents[-200:-8] = b"\xff" * 192
    file.write_bytes(contents)


DAMAGES = (empty, truncate, scribble)


def file_of(lake, name, number):
    return Path(lake.table(name, number)) / "part-0.parquet"


@pytest.mark.parametrize("name", KEPT_BY_BATCH, ids="/".join)
def test_a_sound_lake_is_whole(lake, name):
    """The control."""
    require_whole(lake, name, lake.log.batches)


@pytest.mark.parametrize("damage", DAMAGES)
def test_before_gold_or_a_report_is_made_of_it(lake, damage):
    """Spark would skip an empty file, and its figures would be missing."""
    damage(file_of(lake, TRAFFIC, 0))

    with pytest.raises(LakeDamaged, match=r"parts/traffic/batch_id=0.* Restore"):
        read_summaries(NO_SPARK, lake, TRAFFIC)


def test_a_file_that_is_missing(lake):
    fill(lake, *batch_folder(TRAFFIC, 0), value="x")
    file_of(lake, TRAFFIC, 0).rename(file_of(lake, TRAFFIC, 1).with_name("part-1.parquet"))

    with pytest.raises(LakeDamaged, match=rf"batch_id=0.* {ROWS}\b"):
        read_summaries(NO_SPARK, lake, TRAFFIC)


def test_a_folder_that_is_missing(lake):
    lake.folder.remove(*batch_folder(TRAFFIC, 1))

    with pytest.raises(LakeDamaged, match=r"parts/traffic/batch_id=1.* Restore"):
        read_summaries(NO_SPARK, lake, TRAFFIC)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_table_of_gold(lake, damage):
    tables = [("gold", "hourly", f"{day}.parquet") for day in "ab"]
    for table in tables:
        fill(lake, *table[:-1], value="x")
        lake.folder.write_table(lake.folder.dataset(*table[:-1]).to_table(), *table)
    damage(Path(lake.folder.at(*tables[0])))

    with pytest.raises(LakeDamaged, match=r"gold/hourly/a\.parquet"):
        read_tables(NO_SPARK, lake.folder, *tables)


@pytest.mark.parametrize("name", [EVENTS, JOBS, TRAFFIC], ids="/".join)
def test_before_batches_are_put_together(lake, name):
    empty(file_of(lake, name, 0))

    with pytest.raises(LakeDamaged, match="batch_id=0"):
        Compaction(NO_SPARK, lake)._write_aside(name, lake.log.batches)


class TestWhatSparkComesUpon:
    @pytest.mark.parametrize(
        ("raised", "expected"),
        [
            (
                "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file "
                "file:///data/lake/part-0.parquet. SQLSTATE: KD001",
                "file:///data/lake/part-0.parquet cannot be read: Spark could not read it. Restore",
            ),
            (
                "Job aborted: Lost task (executor 1): [FAILED_READ_FILE.NO_HINT] Encountered error "
                "while reading file file:///data/lake/part-0.parquet. SQLSTATE: KD001\n\tat x",
                "file:///data/lake/part-0.parquet cannot be read",
            ),
            (
                "[PATH_NOT_FOUND] Path does not exist: file:/data/lake/batch_id=3. SQLSTATE: 42K03",
                "file:/data/lake/batch_id=3 is missing",
            ),
        ],
    )
    def test_is_named(self, raised, expected):
        with pytest.raises(LakeDamaged) as caught, naming_damage_in_spark():
            raise AnalysisException(raised)

        assert str(caught.value).startswith(expected)

    def test_anything_else_is_left_to_others(self):
        with pytest.raises(PySparkException, match="something else"), naming_damage_in_spark():
            raise PySparkException("something else")


class EndOfTest(Exception):
    pass


class TestIfBatchesWerePutTogetherMeanwhile:
    @pytest.fixture
    def found(self):
        """What looks find: a folder is missing, as Spark says; the next one ends otherwise."""
        missing = AnalysisException("[PATH_NOT_FOUND] Path does not exist: batch_id=0")
        looks = iter((missing, EndOfTest()))

        def look(*_arguments):
            raise next(looks)

        return look

    def test_a_report_looks_again(self, lake, monkeypatch, found):
        monkeypatch.setattr(lake, "require", found)

        with pytest.raises(EndOfTest):
            report_data.collect_report(NO_SPARK, lake)

    def test_an_audit_looks_again(self, lake, monkeypatch, found):
        monkeypatch.setattr(run, "LakeHistory", found)

        with ackline.open("memory://") as queues, pytest.raises(EndOfTest):
            run.run_audit(NO_SPARK, "", queues, lake=lake)


class TestIfBatchesAreMergedAllTheTime:
    """A look at a large lake may take longer than it takes a run to merge the next batches."""

    def test_it_is_looked_at_for_as_long_as_the_log_changes(self, lake):
        looks = iter(range(MOST_LOOKS - 1))

        def look():
            number = next(looks, None)
            if number is None:
                return SOUND
            lake.log.add(Batch(number=2 + number, events=0, ended=0, days=[], last_at=1.0))
            raise LakeDamaged("a file is missing")

        assert look_again(lake, look) is SOUND

    def test_it_is_not_called_damaged(self, lake):
        numbers = itertools.count(2)

        def look():
            lake.log.add(Batch(number=next(numbers), events=0, ended=0, days=[], last_at=1.0))
            raise LakeDamaged("a file is missing")

        with pytest.raises(LakeClaimed, match="stop"):
            look_again(lake, look)

    def test_the_control_what_stays_missing_is_damaged(self, lake):
        looks = []

        def look():
            looks.append(1)
            raise LakeDamaged("a file is missing")

        with pytest.raises(LakeDamaged):
            look_again(lake, look)
        assert len(looks) == 2


class TestBeforeAnAudit:
    """A proof must not rest on what is missing."""

    def test_a_sound_lake_is_read(self, lake):
        assert [batch.number for batch in retained_batches(lake)] == [0, 1]

    @pytest.mark.parametrize("damage", DAMAGES)
    def test_a_file_is_broken(self, lake, damage):
        damage(file_of(lake, EVENTS, 0))

        with pytest.raises(LakeDamaged, match="batch_id=0"):
            read_bronze(NO_SPARK, lake)

    def test_rows_are_missing(self, lake):
        lake.log.add(msgspec.structs.replace(lake.log.batches[0], events=ROWS + 1))

        with pytest.raises(LakeDamaged, match=rf"batch_id=0.* {ROWS + 1}\b"):
            read_bronze(NO_SPARK, lake)

    @pytest.mark.parametrize(("number", "lacks"), [(0, "0 to 0"), (1, "1 to 1")])
    def test_the_log_lacks_a_batch(self, lake, number, lacks):
        lake.log.add(msgspec.structs.replace(lake.log.batches[-1], number=2))
        lake.log.forget(number)

        with pytest.raises(LakeDamaged, match=lacks):
            read_bronze(NO_SPARK, lake)

    def test_what_was_put_together_lacks_nothing(self, lake):
        lake.log.add(msgspec.structs.replace(lake.log.batches[-1], level=1, first=0))
        lake.log.forget(0)

        assert [batch.number for batch in retained_batches(lake)] == [1]
