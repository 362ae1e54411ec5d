"""Files of a lake are whole, whoever writes them at the same time and wherever they are killed."""

from __future__ import annotations

from typing import Any

import pyarrow
import pyarrow.fs
import pytest

from ackline.spark.errors import LakeClaimed
from ackline.spark.lake import micro_batch
from ackline.spark.lake.folder import Folder, replacing
from ackline.spark.lake.lake import EVENTS, Lake
from ackline.spark.lake.micro_batch import MicroBatch

LOCAL = pyarrow.fs.LocalFileSystem()
NO_PLACE: Any = None
"""Only errors are looked up in the store."""


@pytest.fixture
def folder(tmp_path):
    return Folder(str(tmp_path))


def test_two_who_write_one_file_do_not_mix(folder, tmp_path):
    """A run that was taken for dead wakes up while the one that took over writes."""
    path = tmp_path / "x.json"

    with replacing(LOCAL, str(path)) as woken:
        woken.write(b"of the one that woke up")
        with replacing(LOCAL, str(path)) as successor:
            successor.write(b"of its successor")
        assert path.read_bytes() == b"of its successor"

    assert path.read_bytes() == b"of the one that woke up"
    assert folder.names() == ["x.json"]


def test_what_cannot_take_its_place_is_not_left_behind(folder, tmp_path):
    (tmp_path / "x.json" / "in the way").mkdir(parents=True)

    with pytest.raises(OSError, match="directory"):
        folder.write_json({"a": 1}, "x.json")

    assert folder.names() == ["x.json"]


def test_what_was_left_by_those_that_were_killed_is_swept(folder, tmp_path):
    folder.write_json({"a": 1}, "x.json")
    for name in (".x.json.018f.new", ".x.json.new", ".of-somebody-else"):
        (tmp_path / name).touch()

    folder.sweep()

    assert folder.names() == [".of-somebody-else", "x.json"]


class TestReplacing:
    @pytest.fixture
    def folder(self, folder):
        folder.write_json("old", "table", "part-1")
        folder.write_json("new", "aside", "part-2")
        return folder

    def succeed(self, folder):
        """Another run takes the same batch in."""
        folder.remove("table")
        folder.write_json("another's", "table", "part-3")

    def test_what_was_there_goes(self, folder):
        folder.replace(("aside",), ("table",), lambda: None)

        assert folder.names("table") == ["part-2"]

    def test_what_another_run_has_put_there_meanwhile_stays(self, folder):
        folder.replace(("aside",), ("table",), lambda: self.succeed(folder))

        assert folder.names("table") == ["part-2", "part-3"]

    def test_nothing_changes_if_the_lake_is_anothers_by_then(self, folder):
        def refuse():
            raise LakeClaimed("another run has taken over")

        with pytest.raises(LakeClaimed):
            folder.replace(("aside",), ("table",), refuse)

        assert folder.names("table") == ["part-1"]


def test_a_run_that_woke_up_while_it_copied_takes_its_own_files_back(tmp_path, monkeypatch):
    lake = Lake(str(tmp_path / "lake"))
    names = iter(("part-1.parquet", "part-2.parquet"))
    table = pyarrow.table({"x": [1, 2, 3]})

    def write_table(table, path):
        Folder(path).write_table(table, next(names))

    monkeypatch.setattr(micro_batch, "write_table", write_table)

    def wake_up(point):
        if point == "written":
            MicroBatch(lake, NO_PLACE)._save(table, EVENTS, 0)
        else:
            raise LakeClaimed("another run has taken over")

    with pytest.raises(LakeClaimed):
        MicroBatch(lake, NO_PLACE, wake_up)._save(table, EVENTS, 0)

    assert lake.folder.names(*lake.parts(EVENTS, 0)) == ["part-2.parquet"]
