"""A refused row is kept whole, so that it can be corrected and written again."""

from __future__ import annotations

import base64
import json
import pickle
import socket
import struct

import msgspec
import pyarrow.parquet
import pytest

from ackline.core.errors import ConfigError
from ackline.spark.paths import open_folder
from ackline.spark.store.address import StoreAddress
from ackline.spark.writing.rejected_rows import (
    MAX_LISTED_CHARS,
    RejectedRow,
    RowsRejected,
    iterate_rows,
)
from ackline.spark.writing.rejected_target import RejectedRowsTarget

LARGE = {"id": "a", "priority": 17, "payload": "y" * 2 * MAX_LISTED_CHARS, "result": b"\x00\xff"}


HERE = StoreAddress(url="redis://", tenant="default", host=socket.gethostname())


def reject(folder, most=1000, address=HERE):
    with RejectedRowsTarget.create(folder, "write", most).open(address) as rejects:
        rejects.add([RejectedRow.of(LARGE, ValueError("no"))], 0)
    return rejects.listed


def test_a_folder_has_all_of_it(tmp_path):
    reject(str(tmp_path))

    (kept,) = pyarrow.parquet.read_table(tmp_path).to_pylist()
    row = json.loads(kept["row"])
    assert row["payload"] == LARGE["payload"]
    assert base64.b64decode(row["result"]) == LARGE["result"]


def test_a_list_has_as_much_as_can_be_shown():
    (listed,) = reject(None)

    assert len(listed.row) == MAX_LISTED_CHARS + 1
    assert listed.row.endswith("…")
    with pytest.raises(RowsRejected):
        reject(None, most=0)


def test_whom_it_is_told_knows_the_option_that_names_a_folder():
    for option, place in (
        ("(rejectedPath)", RejectedRowsTarget.create(None, "write", 0)),
        ("(--rejected FOLDER)", RejectedRowsTarget.create(None, "load", 0, "--rejected FOLDER")),
    ):
        with pytest.raises(RowsRejected) as caught, place.open(HERE) as rejects:
            rejects.add([RejectedRow("1", "ValueError", "no")], 0)

        assert f"name a folder for them {option}, which" in str(caught.value)


def test_a_relative_folder_is_that_of_the_machine_that_plans(tmp_path, monkeypatch):
    (tmp_path / "task").mkdir()
    monkeypatch.chdir(tmp_path)
    planned = pickle.dumps(RejectedRowsTarget.create("rejected", "write", 1000))

    monkeypatch.chdir("task")
    with pickle.loads(planned).open(HERE) as rejects:
        rejects.add([RejectedRow.of(LARGE, ValueError("no"))], 0)

    assert pyarrow.parquet.read_table(tmp_path / "rejected").num_rows == 1
    assert not list((tmp_path / "task").iterdir())


def test_a_folder_of_another_machine_is_refused(tmp_path):
    """Else each machine would have some of the rows, and nobody would find them."""
    elsewhere = StoreAddress(url="redis://", tenant="default", host="elsewhere")

    for folder in (str(tmp_path / "rejected"), (tmp_path / "rejected").as_uri()):
        with pytest.raises(ConfigError, match="sharedFiles"):
            reject(folder, address=elsewhere)
    assert not list(tmp_path.iterdir())
    reject(None, address=elsewhere)

    shared = msgspec.structs.replace(elsewhere, shared_files=True)
    reject(str(tmp_path / "rejected"), address=shared)
    assert pyarrow.parquet.read_table(tmp_path / "rejected").num_rows == 1


def test_a_bucket_has_the_name_that_spark_has_for_it():
    """What a task opens; nothing is asked of the bucket before there is a row."""
    with pytest.raises(ConfigError, match="ftp://files"):
        RejectedRowsTarget.create("ftp://files", "write", 1000)

    planned = RejectedRowsTarget.create("s3a://shop/rejected/?region=eu-west-1", "write", 1000)

    files, root = open_folder(str(planned.folder))
    assert (files.type_name, root) == ("s3", "shop/rejected")


def test_what_python_cannot_represent_is_kept_as_it_is():
    """Else nobody could correct it: the bytes of a text, and the number of a time."""
    offsets, texts = pyarrow.py_buffer(struct.pack("<3i", 0, 2, 3)), pyarrow.py_buffer(b"\xff\xfea")
    before_the_year_1 = -62_135_683_200_000_000
    times = pyarrow.array([before_the_year_1, 0]).cast(pyarrow.timestamp("us", tz="UTC"))
    names = pyarrow.StringArray.from_buffers(2, offsets, texts)

    broken, fine = iterate_rows(pyarrow.RecordBatch.from_arrays([names, times], ["name", "at"]))

    assert isinstance(broken, RejectedRow)
    assert isinstance(fine, dict)
    assert json.loads(broken.row) == {"name": "//4=", "at": before_the_year_1}
    assert "column 'name' cannot be read" in broken.reason
    assert fine["name"] == "a"
