"""The lake's tables as Delta tables: the same rows, each once, however often it is done."""

from __future__ import annotations

import datetime
import itertools
import shutil
import sys
from pathlib import Path

import msgspec
import pyarrow
import pyarrow.parquet
import pytest
from deltalake import DeltaTable
from tests.spark.support.lake_and_store import GOLD_TABLES

from ackline.core.errors import ConfigError, MissingExtra
from ackline.spark.errors import LakeClaimed
from ackline.spark.lake import delta
from ackline.spark.lake.batch_log import Batch
from ackline.spark.lake.delta import DeltaTables, rows_with_all_columns
from ackline.spark.lake.folder import Folder
from ackline.spark.lake.lake import Lake
from ackline.spark.lake.layout import EVENTS, JOBS, MARK, batch_folder
from ackline.spark.lake.mark import SCHEMA, Mark

TABLES = [("bronze", "events"), ("silver", "jobs"), *(("gold", name) for name in GOLD_TABLES)]


@pytest.fixture
def lake(sample_lake, tmp_path):
    """A lake of three batches of which the last two are not told of yet."""
    path = tmp_path / "lake"
    shutil.copytree(sample_lake.path, path)
    lake = Lake(str(path))
    for batch in lake.log.batches[1:]:
        lake.log.forget(batch.number)
    return lake


def opened(lake, folder):
    tables = DeltaTables(lake, str(folder / "delta"))
    tables.open()
    return tables


def complete(lake, sample_lake):
    for batch in sample_lake.lake.log.batches[1:]:
        lake.log.add(batch)


def rows_of(path, *name):
    return sorted(map(repr, DeltaTable(str(path.joinpath(*name))).to_pyarrow_table().to_pylist()))


def test_each_batch_is_there_once(lake, sample_lake, tmp_path):
    for stage in (lambda: None, lambda: None, lambda: complete(lake, sample_lake), lambda: None):
        stage()
        opened(lake, tmp_path).bring_up_to_date()

    for name in TABLES:
        expected = pyarrow.parquet.read_table("/".join((sample_lake.path, *name)))
        if "batch_id" in expected.column_names:
            expected = expected.drop("batch_id")
        assert rows_of(tmp_path / "delta", *name) == sorted(map(repr, expected.to_pylist())), name


def test_without_the_number_of_the_batch_it_would_be_there_twice(
    lake, sample_lake, tmp_path, monkeypatch
):
    """The control."""
    monkeypatch.setattr("deltalake.DeltaTable.transaction_version", lambda *_: None)
    tables = opened(lake, tmp_path)
    for _ in range(2):
        tables.bring_up_to_date()

    once = pyarrow.parquet.read_table(f"{sample_lake.path}/bronze/events/batch_id=0").num_rows
    assert len(rows_of(tmp_path / "delta", "bronze", "events")) == 2 * once


def test_gold_is_made_anew_with_other_objectives(lake, tmp_path):
    tables = opened(lake, tmp_path)
    for objectives in ({"*": 60.0}, {"*": 60.0}, {"*": 5.0}):
        lake.change(published_with=objectives)
        tables.bring_up_to_date()

    assert DeltaTable(str(tmp_path / "delta" / "gold" / "slo")).version() == 1
    assert DeltaTable(str(tmp_path / "delta" / "gold" / "hourly")).version() == 0
    assert DeltaTable(str(tmp_path / "delta" / "bronze" / "events")).version() == 0


def test_gold_follows_objectives_that_are_as_they_were(lake, tmp_path):
    """Nothing has happened meanwhile: it is the same batch as ever."""
    tables = opened(lake, tmp_path)
    for objectives in ({"*": 60.0}, {"*": 5.0}, {"*": 60.0}):
        lake.change(published_with=objectives)
        tables.bring_up_to_date()

    assert DeltaTable(str(tmp_path / "delta" / "gold" / "slo")).version() == 2


def test_a_table_has_the_columns_of_all_its_files(tmp_path):
    """The gold of old days may be of an earlier version."""
    folder = Folder(str(tmp_path))
    always = pyarrow.field("x", pyarrow.int64(), nullable=False)
    added = pyarrow.field("new", pyarrow.int64(), nullable=False)
    old = pyarrow.table({"x": [1]}, pyarrow.schema([always]))
    new = pyarrow.table({"new": [3], "x": [2]}, pyarrow.schema([added, always]))
    for name, table in {"2001-01-01": old, "2001-01-02": new}.items():
        folder.write_table(table, "daily", f"{name}.parquet")

    found = rows_with_all_columns(folder, ("daily",)).read_all().to_pylist()

    assert found == [{"x": 1, "new": None}, {"x": 2, "new": 3}]


def test_small_files_are_put_together(lake, sample_lake, tmp_path, monkeypatch):
    monkeypatch.setattr(delta, "TIDY_EVERY", 3)
    complete(lake, sample_lake)
    opened(lake, tmp_path).bring_up_to_date()

    events = DeltaTable(str(tmp_path / "delta" / "bronze" / "events"))
    assert len(events.file_uris()) == 1
    assert events.to_pyarrow_table().num_rows == len(sample_lake.rows("bronze", "events"))


def log_batch(lake, number):
    """Ten rows in each table, one for each second."""
    seconds = range(number * 10, number * 10 + 10)
    at = [datetime.datetime.fromtimestamp(second, datetime.UTC) for second in seconds]
    for name, column in ((EVENTS, "at"), (JOBS, "ended_at")):
        lake.folder.write_table(
            pyarrow.table({column: at}), *batch_folder(name, number), "0.parquet"
        )
    lake.log.add(Batch(number=number, events=10, ended=10, days=[], last_at=seconds[-1]))


def test_they_are_tidied_though_each_run_deletes_something(empty_lake, tmp_path, monkeypatch):
    """With one commit more for each write, its number is never odd."""
    monkeypatch.setattr(delta, "TIDY_EVERY", 4)
    tables = opened(empty_lake, tmp_path)
    for number in range(3):
        log_batch(empty_lake, number)
        tables.bring_up_to_date()
        tables.drop(number + 1.0)

    history = DeltaTable(str(tmp_path / "delta" / "bronze" / "events")).history()
    done = [commit["operation"] for commit in reversed(history)]
    assert done[:4] == ["WRITE", "DELETE", "WRITE", "DELETE"]
    assert done[4:] == ["OPTIMIZE", "WRITE", "DELETE"]


@pytest.fixture
def empty_lake(tmp_path):
    lake = Lake(str(tmp_path / "lake"))
    lake.folder.write_json(Mark(schema=SCHEMA, store="x", tenant="t", id="i"), MARK)
    return lake


@pytest.mark.parametrize("batches", [1, 2])
def test_one_that_slept_right_before_its_commit_adds_nothing(empty_lake, tmp_path, batches):
    """Another has taken over, and has brought the tables up to date; there may have been none."""
    first, *others = range(batches)
    log_batch(empty_lake, first)
    if others:
        opened(empty_lake, tmp_path).bring_up_to_date()
        log_batch(empty_lake, 1)
    tables = opened(empty_lake, tmp_path)
    checks = itertools.count()

    def check_then_sleep():
        if next(checks):
            raise LakeClaimed("another run has taken over")
        DeltaTables(Lake(empty_lake.folder.path), tables.path).bring_up_to_date()

    empty_lake.folder.check = check_then_sleep
    with pytest.raises(LakeClaimed):
        tables.bring_up_to_date()

    assert len(rows_of(tmp_path / "delta", "bronze", "events")) == 10 * batches


class TestWhereTheyAre:
    """Their tables have the names of the lake's own, and remove files that they do not know."""

    @pytest.mark.parametrize("folder", ["lake", "lake/delta", ".", "by another name/delta"])
    def test_not_where_the_lake_is(self, empty_lake, tmp_path, folder):
        (tmp_path / "by another name").symlink_to("lake")
        before = sorted(tmp_path.rglob("*"))

        with pytest.raises(ConfigError, match="within"):
            DeltaTables(empty_lake, str(tmp_path / folder)).open()

        assert sorted(tmp_path.rglob("*")) == before

    def test_beside_it(self, empty_lake, tmp_path):
        DeltaTables(empty_lake, str(tmp_path / "lake-delta")).open()


class TestWhoseTheyAre:
    @pytest.fixture
    def tables(self, lake, tmp_path):
        tables = opened(lake, tmp_path)
        tables.bring_up_to_date()
        return tables

    def test_they_are_the_first_lakes_before_anything_is_in_them(self, empty_lake, tmp_path):
        opened(empty_lake, tmp_path)
        empty_lake.change(id="another")

        with pytest.raises(ConfigError, match="another lake"):
            opened(empty_lake, tmp_path)

    def test_of_two_lakes_that_open_them_at_once_one_is_refused(
        self, empty_lake, tmp_path, monkeypatch
    ):
        create = Folder.create_json

        def create_after_another(folder, *arguments):
            create(folder, delta.Owner("another"), delta.OWNER)
            create(folder, *arguments)

        monkeypatch.setattr(Folder, "create_json", create_after_another)

        with pytest.raises(ConfigError, match="another lake"):
            opened(empty_lake, tmp_path)

    def test_one_that_lost_them_to_another_adds_nothing(self, empty_lake, tmp_path):
        """In an object store both may have taken them, and the last has them."""
        tables = opened(empty_lake, tmp_path)
        Folder(tables.path).write_json(delta.Owner("another"), delta.OWNER)
        log_batch(empty_lake, 0)

        with pytest.raises(ConfigError, match="another lake"):
            tables.bring_up_to_date()

        assert Folder(tables.path).names() == [delta.OWNER]

    def test_those_of_another_lake_are_refused(self, lake, tables):
        tables.open()
        lake.change(id="another")

        with pytest.raises(ConfigError, match=r"another lake.*--delta none"):
            tables.open()

    def test_those_of_an_earlier_version_are_the_lakes_that_remembers_them(self, lake, tables):
        (Path(tables.path) / delta.OWNER).unlink()
        with pytest.raises(ConfigError, match="another lake"):
            tables.open()

        lake.change(delta=tables.path)

        tables.open()

    def test_a_lake_that_was_restored_and_ends_earlier_is_refused(self, lake, sample_lake, tables):
        complete(lake, sample_lake)
        tables.bring_up_to_date()
        lake.log.forget(2)

        with pytest.raises(ConfigError, match=r"batch 2 .*--delta none"):
            tables.open()

    def test_a_lake_that_was_restored_and_went_on_otherwise_is_refused(
        self, lake, sample_lake, tables
    ):
        lake.log.add(msgspec.structs.replace(sample_lake.lake.log.batches[0], last_at=0.0))

        with pytest.raises(ConfigError, match="batch 0"):
            tables.open()


def test_batches_that_were_put_together_meanwhile_are_refused(lake, sample_lake, tmp_path):
    opened(lake, tmp_path).bring_up_to_date()
    lake.log.forget(0)
    lake.log.add(msgspec.structs.replace(sample_lake.lake.log.batches[1], level=1, first=0))

    for refusing in (DeltaTables.open, DeltaTables.bring_up_to_date):
        with pytest.raises(ConfigError, match="--delta none"):
            refusing(DeltaTables(lake, str(tmp_path / "delta")))


def test_an_export_that_was_killed_goes_on_with_batches_put_together(lake, sample_lake, tmp_path):
    """None of them has anything that the Delta tables have already."""
    opened(lake, tmp_path).bring_up_to_date()
    for batch in sample_lake.lake.log.batches[1:]:
        lake.log.add(msgspec.structs.replace(batch, level=1, first=batch.number))

    opened(lake, tmp_path).bring_up_to_date()

    found = rows_of(tmp_path / "delta", "bronze", "events")
    assert len(found) == len(sample_lake.rows("bronze", "events"))


def test_what_is_too_old_goes_from_delta_too(lake, sample_lake, tmp_path):
    tables = opened(lake, tmp_path)
    complete(lake, sample_lake)
    tables.bring_up_to_date()
    events = sorted(sample_lake.rows("bronze", "events"), key=lambda row: row["at"])
    before = events[len(events) // 2]["at"]

    tables.drop(before.timestamp())

    kept = sum(row["at"] >= before for row in events)
    assert 0 < kept < len(events)
    assert len(rows_of(tmp_path / "delta", "bronze", "events")) == kept
    lives = sample_lake.rows("silver", "jobs")
    ended = sum(row["ended_at"] >= before for row in lives)
    assert len(rows_of(tmp_path / "delta", "silver", "jobs")) == ended


def test_without_the_package_it_says_what_to_install(lake, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "deltalake", None)

    with pytest.raises(MissingExtra, match=r"ackline\[delta\]"):
        DeltaTables(lake, str(tmp_path / "delta"))
