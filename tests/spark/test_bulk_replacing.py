"""An export over an earlier one: all of it or nothing, and never over anything else."""

from __future__ import annotations

import pytest

from ackline.errors import ConfigError
from ackline.spark.bulk.replacing import ExportFolder


def fill(folder, **texts):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name.replace("part_", "part-")).write_text(text)


def contents(folder):
    return {path.name: path.read_text() if path.is_file() else None for path in folder.iterdir()}


@pytest.fixture
def folder(tmp_path):
    fill(tmp_path / "out", part_1="old 1", part_2="old 2", _SUCCESS="")
    return tmp_path / "out"


def test_the_new_one_takes_its_place(folder):
    with ExportFolder(str(folder)).replacing() as new:
        fill(folder / new, part_3="new", _SUCCESS="done")

    assert contents(folder) == {"part-3": "new", "_SUCCESS": "done"}


def test_one_that_fails_leaves_the_earlier_one(folder):
    before = contents(folder)

    def fail():
        with ExportFolder(str(folder)).replacing() as new:
            fill(folder / new, part_3="half")
            raise ValueError("boom")

    with pytest.raises(ValueError, match="boom"):
        fail()

    assert contents(folder) == before


def test_one_that_cannot_be_moved_leaves_the_earlier_one(folder):
    before = contents(folder)

    def collide():
        with ExportFolder(str(folder)).replacing() as new:
            fill(folder / new, part_3="new", part_4="new", _SUCCESS="")
            (folder / "part-4").mkdir()

    with pytest.raises(OSError, match="part-4"):
        collide()

    assert contents(folder) == {**before, "part-4": None}


@pytest.mark.parametrize("foreign", ["thesis.txt", "2026/thesis.txt", "part-0/thesis.txt"])
def test_nothing_else_is_overwritten(folder, foreign):
    file = folder / foreign
    file.parent.mkdir(exist_ok=True)
    file.write_text("years of work")

    with pytest.raises(ConfigError, match="no export wrote"), ExportFolder(str(folder)).replacing():
        pass

    assert file.read_text() == "years of work"


def test_a_file_is_no_export(tmp_path):
    (tmp_path / "file").write_text("text")

    with (
        pytest.raises(ConfigError, match="is a file"),
        ExportFolder(f"{tmp_path}/file").replacing(),
    ):
        pass


def test_what_a_killed_export_left_is_removed(folder):
    for name in ("_temporary", "_new-x", "_old-x"):
        fill(folder / name, part_9="half")

    with ExportFolder(str(folder)).replacing() as new:
        fill(folder / new, part_3="new")

    assert contents(folder) == {"part-3": "new"}
