"""Malformed lines of a CSV, with the reasons, which Spark does not give."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

import msgspec
import pyarrow

from ackline.spark.writing.rejected_rows import RejectedRow

TYPE_NAMES = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), "a whole number"),
    **dict.fromkeys(("float", "double"), "a number"),
    "timestamp": "a time such as 2030-01-31T08:00:00Z",
    "date": "a date such as 2030-01-31",
    "boolean": "true or false",
}
"""The types of columns, in words."""

INTEGER_MAX = {"tinyint": 2**7 - 1, "smallint": 2**15 - 1, "int": 2**31 - 1, "bigint": 2**63 - 1}

UNKNOWN_REASON = (
    "the line has more or fewer values than the first line names, or one of another type"
)


class CsvLayout(msgspec.Struct, frozen=True):
    """The columns of a CSV with their types, in Spark's notation."""

    columns: tuple[tuple[str, str], ...]
    delimiter: str

    def refused(self, batch: pyarrow.RecordBatch) -> Iterator[RejectedRow]:
        """The lines of a batch, which has the columns that Spark could read, then the line."""
        *values, lines = batch.columns
        for number, line in enumerate(lines.to_pylist()):
            missing = [not value[number].is_valid for value in values]
            yield RejectedRow(line, "BrokenLine", self.reason(line, missing))

    def reason(self, line: str, missing: list[bool]) -> str:
        """Why a line cannot be read, where Spark has no value in these columns."""
        texts = self._values(line)
        if texts is None:
            return UNKNOWN_REASON
        if len(texts) != len(self.columns):
            values = "1 value" if len(texts) == 1 else f"{len(texts)} values"
            return f"the line has {values}, but the first line names {len(self.columns)} columns"
        wrong = [
            f"column {name!r} is {text[:40]!r}, which is not {_expected(kind, text)}"
            for (name, kind), text, lacks in zip(self.columns, texts, missing, strict=True)
            if lacks and text
        ]
        return "; ".join(wrong) or UNKNOWN_REASON

    def _values(self, line: str) -> list[str] | None:
        try:
            return next(csv.reader(io.StringIO(line, newline=""), delimiter=self.delimiter), [])
        except csv.Error:
            return None


def _expected(kind: str, text: str) -> str:
    if kind in INTEGER_MAX and text.lstrip("+-").isdecimal():
        return f"from {-INTEGER_MAX[kind] - 1} to {INTEGER_MAX[kind]}"
    return TYPE_NAMES.get(kind, kind)
