"""Rows that cannot be written, each with the reason."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow

from ackline.core.errors import InvalidJob

SHOWN_ROWS = 10
"""How many rejected rows an error shows."""

REJECTED_PATH = "rejectedPath"
"""The option of the format that names a folder for rejected rows."""

MAX_LISTED_CHARS = 10_000
"""Characters of a listed row; a folder has all of it."""

CONVERSION_ERRORS = (KeyError, OverflowError, ValueError)
"""What Arrow raises for a value that Python cannot represent, such as a time in the year 10000."""


class RowsRejected(InvalidJob):
    """Some rows were refused; all others are written, or those before too many were refused."""

    def __init__(
        self,
        rows: Sequence[RejectedRow],
        others: int,
        *,
        stopped: bool = False,
        option: str = REJECTED_PATH,
    ) -> None:
        shown = "\n".join(f"  {one.row[:200]}: {one.reason}" for one in rows[:SHOWN_ROWS])
        more = f"\n  and {len(rows) - SHOWN_ROWS:,} more" if len(rows) > SHOWN_ROWS else ""
        were = "row was" if len(rows) == 1 else "rows were"
        super().__init__(
            f"{len(rows):,} {were} refused; {_describe_written(others, stopped)}. "
            "Correct them and write again, which writes nothing twice, or name a folder for them "
            f"({option}), which takes any number:\n{shown}{more}"
        )


def _describe_written(others: int, stopped: bool) -> str:
    if stopped:
        return f"so its task stopped after it had written {others:,} others"
    if others == 0:
        return "there were no others"
    return "the other one is written" if others == 1 else f"the other {others:,} are written"


class RejectedRow(msgspec.Struct, frozen=True):
    """A rejected row as JSON, with bytes in base64, and the reason."""

    row: str
    error: str
    reason: str

    @classmethod
    def of(cls, row: dict[str, Any], error: Exception) -> RejectedRow:
        """A row that was refused with this error."""
        try:
            text = json.dumps(row, default=_as_text, ensure_ascii=False)
        except (TypeError, ValueError, RecursionError):
            text = str(row)
        return cls(text, type(error).__name__, str(error))

    @classmethod
    def in_report(cls, rows: Iterable[Mapping[str, Any]]) -> list[RejectedRow]:
        """The rejected rows in the reports of tasks, which also contain counts."""
        return [
            cls(row["row"], row["error"], row["reason"])
            for row in rows
            if row["reason"] is not None
        ]

    @property
    def shortened(self) -> RejectedRow:
        """The same with the row cut to a length that can be listed."""
        if len(self.row) <= MAX_LISTED_CHARS:
            return self
        return RejectedRow(self.row[:MAX_LISTED_CHARS] + "…", self.error, self.reason)


def _as_text(value: Any) -> str:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def iterate_rows(batch: pyarrow.RecordBatch) -> Iterator[dict[str, Any] | RejectedRow]:
    """The rows of a batch; one with a value that cannot be read is rejected alone."""
    try:
        yield from batch.to_pylist(maps_as_pydicts="strict")
    except CONVERSION_ERRORS:
        for number in range(batch.num_rows):
            yield _row_of(batch, number)


def _row_of(batch: pyarrow.RecordBatch, number: int) -> dict[str, Any] | RejectedRow:
    row: dict[str, Any] = {}
    reason = ""
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            row[name] = column[number].as_py(maps_as_pydicts="strict")
        except CONVERSION_ERRORS as error:
            row[name] = _raw_value(column[number])
            reason = reason or f"column {name!r} cannot be read: {error}"
    return RejectedRow.of(row, InvalidJob(reason)) if reason else row


def _raw_value(value: pyarrow.Scalar[Any]) -> bytes | int | str:
    """The bytes of a text that is invalid, or the number of a time that Python does not know."""
    if pyarrow.types.is_string(value.type) or pyarrow.types.is_large_string(value.type):
        return bytes(value.as_buffer().to_pybytes())
    if pyarrow.types.is_temporal(value.type):
        return int(value.value)
    return f"a {value.type} that cannot be read"
