"""Events as Arrow batches; a value that consecutive rows share is encoded once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy
import pyarrow
import pyarrow.compute

from ackline.core.events import Entry, Event, Events, JournalBatch
from ackline.spark import schemas
from ackline.spark.tables.job_rows import timestamp_array
from ackline.stores.shared.journal_batches import UniformRun, uniform_runs

TEXT = pyarrow.string()

FixedWidth = numpy.ndarray[Any, Any]
"""Pieces of text that have one width."""


def events_batch(events: Sequence[Event]) -> pyarrow.RecordBatch:
    """Events with the columns of `schemas.EVENTS`; no `Event` is made if a store sent batches."""
    schema, batches = schemas.arrow_schema("events"), Events.from_sequence(events).batches
    if not batches:
        return pyarrow.RecordBatch.from_pylist([], schema)
    columns = _batch_columns(batches) | _entry_columns(batches, schema)
    return pyarrow.RecordBatch.from_arrays([columns[field.name] for field in schema], schema=schema)


class _RunLengths:
    """Runs of consecutive rows that share a value, by where each run ends."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = numpy.array(sizes)
        self.ends = self.sizes.cumsum()
        self.rows = int(self.ends[-1])
        self._run_ends = pyarrow.array(self.ends, pyarrow.int32())

    def column(self, values: list[Any], kind: pyarrow.DataType) -> pyarrow.Array:
        """A column from values that are given once for each run."""
        # Comparing costs far less than writing, and if any value differs, the last one mostly does.
        if values[0] == values[-1] and values.count(values[0]) == len(values):
            return pyarrow.repeat(pyarrow.scalar(values[0], kind), self.rows)
        return self.spread(pyarrow.array(values, kind))

    def spread(self, values: pyarrow.Array) -> pyarrow.Array:
        """The same for values that are a column already."""
        if len(values) == self.rows:
            return values
        runs = pyarrow.RunEndEncodedArray.from_arrays(self._run_ends, values)
        return pyarrow.compute.run_end_decode(runs)


# --- values that all entries of a batch share ---


def _batch_columns(batches: Sequence[JournalBatch]) -> dict[str, pyarrow.Array]:
    runs = _RunLengths([len(one.entries) for one in batches])
    return {
        "tenant": runs.column([one.queue.tenant for one in batches], TEXT),
        "queue": runs.column([one.queue.name for one in batches], TEXT),
        "at": runs.spread(timestamp_array([one.at for one in batches])),
        **_cursor_columns(batches, runs),
    }


def _cursor_columns(batches: Sequence[JournalBatch], runs: _RunLengths) -> dict[str, pyarrow.Array]:
    numbers, positions = [one.number for one in batches], _positions_in_batch(batches, runs)
    most = max(one.end[1] for one in batches)
    decimal, hexadecimal = (
        suffixes.take(positions) for suffixes in _position_texts(most.bit_length())
    )
    # All of one width first: texts of many widths are joined several times more slowly.
    width = len(f"{max(numbers)}.")
    cursors = _concatenated(runs, [f"{number}.".rjust(width) for number in numbers], decimal)
    places = _concatenated(runs, [f"{number:032x}" for number in numbers], hexadecimal)
    return {"cursor": pyarrow.compute.ascii_trim_whitespace(cursors), "place": places}


def _positions_in_batch(
    batches: Sequence[JournalBatch], runs: _RunLengths
) -> numpy.ndarray[Any, Any]:
    """The second parts of cursors: each row's number in its batch, counting those left out."""
    offsets = numpy.array([one.end[1] for one in batches]) - runs.ends
    positions: numpy.ndarray[Any, Any] = numpy.arange(1, runs.rows + 1) + offsets.repeat(runs.sizes)
    return positions


@cache
def _position_texts(bits: int) -> tuple[FixedWidth, FixedWidth]:
    """The second parts of cursors and of places; cached, because all batches use the same ones."""
    numbers = range(1 << bits)
    decimal = _bytes([f"{position:<8}" for position in numbers])
    return decimal, _bytes([f"{position:08x}" for position in numbers])


def _concatenated(
    runs: _RunLengths, prefixes: list[str], suffixes: FixedWidth
) -> pyarrow.StringArray:
    """Texts of two parts: a prefix for each run, and a suffix for each row."""
    common = _bytes(prefixes)
    rows = numpy.empty(runs.rows, [("prefix", common.dtype), ("suffix", suffixes.dtype)])
    rows["prefix"], rows["suffix"] = common.repeat(runs.sizes), suffixes
    return _texts(rows)


def _bytes(texts: list[str]) -> FixedWidth:
    """Texts of one width, as numpy copies them fastest."""
    return numpy.frombuffer("".join(texts).encode(), f"V{len(texts[0])}")


def _texts(rows: FixedWidth) -> pyarrow.StringArray:
    """A column of texts that have one width."""
    ends = numpy.arange(len(rows) + 1, dtype=numpy.int32) * numpy.int32(rows.itemsize)
    return pyarrow.StringArray.from_buffers(
        len(rows), pyarrow.py_buffer(ends), pyarrow.py_buffer(numpy.ascontiguousarray(rows))
    )


# --- values of each entry ---


def _entry_columns(
    batches: Sequence[JournalBatch], schema: pyarrow.Schema
) -> dict[str, pyarrow.Array]:
    page = _EntryColumns()
    for batch in batches:
        page.add(batch.entries)
    runs = _RunLengths(page.sizes)
    columns = {
        name: runs.column(values, schema.field(name).type)
        for name, values in _fields(page.entries).items()
    }
    return columns | {"id": page.ids()}


class _EntryColumns:
    """Entries in runs: those that differ only in their ids are one run."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        """The first of each run."""
        self.sizes: list[int] = []
        self._ids: list[pyarrow.Array] = []
        self._runs_with_ids = 0
        """How many runs have their ids in `_ids` already."""

    def add(self, entries: Sequence[Entry]) -> None:
        """Add the entries of one batch."""
        runs = uniform_runs(entries)
        ids = [_ids(run) for run in runs]
        if not ids or any(array is None for array in ids):
            self.entries += entries
            self.sizes += [1] * len(entries)
            return
        self._add_ids()
        self._ids += ids
        self._runs_with_ids += len(ids)
        self.entries += [run.entry for run in runs]
        self.sizes += map(len, runs)

    def ids(self) -> pyarrow.Array:
        """The ids of all entries."""
        self._add_ids()
        return pyarrow.concat_arrays(self._ids)

    def _add_ids(self) -> None:
        unnamed = [entry.id for entry in self.entries[self._runs_with_ids :]]
        self._ids.append(pyarrow.array(unnamed, TEXT))
        self._runs_with_ids = len(self.entries)


def _ids(run: UniformRun) -> pyarrow.Array | None:
    """The ids of the entries of a run; None if they differ in something else, too."""
    length = run.ids.stop - run.ids.start
    row = _row(run.ids.start, length, run.width)
    rows, first = numpy.frombuffer(run.rows, row), numpy.frombuffer(run.first, row)
    for side in ("before", "after"):
        if rows[side].tobytes() != first[side].tobytes() * len(rows):
            return None
    return _texts(rows["id"])


@cache
def _row(start: int, length: int, width: int) -> numpy.dtype[Any]:
    """A row of `width` bytes with an id of `length` bytes at `start`."""
    sizes = {"before": start, "id": length, "after": width - start - length}
    return numpy.dtype([(name, f"V{size}") for name, size in sizes.items()])


def _fields(entries: list[Entry]) -> dict[str, list[Any]]:
    """The columns of entries, except the id."""
    return {
        "act": [entry.act for entry in entries],
        "kind": [entry.kind for entry in entries],
        "source": [entry.source for entry in entries],
        "to": [entry.to for entry in entries],
        "attempt": [entry.attempt for entry in entries],
        "token": [entry.token for entry in entries],
        "worker": [entry.worker for entry in entries],
        "note": [entry.note for entry in entries],
        "by": [entry.by for entry in entries],
        "priority": [entry.priority for entry in entries],
        "moved_from": [entry.moved_from for entry in entries],
        "moved_to": [entry.moved_to for entry in entries],
    }
