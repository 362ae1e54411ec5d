"""A refused row is kept whole, so that it can be corrected and written again."""

from __future__ import annotations

import base64
import json
import struct

import pyarrow.parquet
import pytest

from ackline.spark.writing.rejected import LONGEST_LISTED, Aside, Rejected, RowsRejected, rows_of

LARGE = {"id": "a", "priority": 17, "payload": "y" * 2 * LONGEST_LISTED, "result": b"\x00\xff"}


def refuse(aside):
    with aside.refusing() as refused:
        refused.add([Rejected.of(LARGE, ValueError("no"))], 0)
    return refused.listed


def test_a_folder_has_all_of_it(tmp_path):
    refuse(Aside(str(tmp_path), "write"))

    (kept,) = pyarrow.parquet.read_table(tmp_path).to_pylist()
    row = json.loads(kept["row"])
    assert row["payload"] == LARGE["payload"]
    assert base64.b64decode(row["result"]) == LARGE["result"]


def test_a_list_has_as_much_as_can_be_shown():
    (listed,) = refuse(Aside(None, "write"))

    assert len(listed.row) == LONGEST_LISTED + 1
    assert listed.row.endswith("…")
    with pytest.raises(RowsRejected):
        refuse(Aside(None, "write", most=0))


def test_what_python_cannot_represent_is_kept_as_it_is():
    """Else nobody could correct it: the bytes of a text, and the number of a time."""
    offsets, texts = pyarrow.py_buffer(struct.pack("<3i", 0, 2, 3)), pyarrow.py_buffer(b"\xff\xfea")
    before_the_year_1 = -62_135_683_200_000_000
    times = pyarrow.array([before_the_year_1, 0]).cast(pyarrow.timestamp("us", tz="UTC"))
    names = pyarrow.StringArray.from_buffers(2, offsets, texts)

    broken, fine = rows_of(pyarrow.RecordBatch.from_arrays([names, times], ["name", "at"]))

    assert isinstance(broken, Rejected)
    assert isinstance(fine, dict)
    assert json.loads(broken.row) == {"name": "//4=", "at": before_the_year_1}
    assert "column 'name' cannot be read" in broken.reason
    assert fine["name"] == "a"
