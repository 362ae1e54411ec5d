"""Files of a lake are whole, whoever writes them at the same time and wherever they are killed."""

from __future__ import annotations

import pyarrow.fs
import pytest

from ackline.spark.lake.folder import Folder, replacing

LOCAL = pyarrow.fs.LocalFileSystem()


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
