"""Events as Arrow batches, by the column and by the run: what neighbours share is written once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from typing import Any

import numpy
import pyarrow
import pyarrow.compute

from ackline.events import Alike, Batch, Entry, Event, Events, Unread
from ackline.spark import schemas
from ackline.spark.rows import times

TEXT = pyarrow.string()


def events_batch(events: Sequence[Event]) -> pyarrow.RecordBatch:
    """Events with the columns of `schemas.EVENTS`; of a store's own, none is made for it."""
    schema, batches = schemas.arrow("events"), Events.of(events).batches
    columns = _of_batches(batches) | _of_entries(batches, schema)
    return pyarrow.RecordBatch.from_arrays([columns[field.name] for field in schema], schema=schema)


class _Runs:
    """Rows that follow each other and have a value in common: where each run of them ends."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.ends = list(accumulate(sizes))
        self.rows = self.ends[-1] if self.ends else 0
        self._run_ends = pyarrow.array(self.ends, pyarrow.int32())

    def column(self, values: list[Any], kind: pyarrow.DataType) -> pyarrow.Array:
        """A column of values that are told once for each run."""
        # Comparing costs far less than writing, and where values differ the last one mostly does.
        if values and values[0] == values[-1] and values.count(values[0]) == len(values):
            return pyarrow.repeat(pyarrow.scalar(values[0], kind), self.rows)
        return self.spread(pyarrow.array(values, kind))

    def spread(self, values: pyarrow.Array) -> pyarrow.Array:
        """The same for values that are a column already."""
        if len(values) == self.rows:
            return values
        runs = pyarrow.RunEndEncodedArray.from_arrays(self._run_ends, values)
        return pyarrow.compute.run_end_decode(runs)


# --- what a batch says of all its entries ---


def _of_batches(batches: Sequence[Batch]) -> dict[str, pyarrow.Array]:
    runs = _Runs([len(one.entries) for one in batches])

    def texts(values: list[str]) -> pyarrow.Array:
        return runs.column(values, TEXT)

    # The second part of a cursor says how many rows of its batch, and those left out, come first.
    offsets = [one.end[1] - end for one, end in zip(batches, runs.ends, strict=True)]
    most = max((one.end[1] for one in batches), default=0)
    rows = _rows(runs.rows.bit_length()).slice(1, runs.rows)
    used = pyarrow.compute.add(rows, runs.column(offsets, pyarrow.int64()))
    numbers, digits = (parts.take(used) for parts in _parts(most.bit_length()))
    return {
        "tenant": texts([one.queue.tenant for one in batches]),
        "queue": texts([one.queue.name for one in batches]),
        "at": runs.spread(times([one.at for one in batches])),
        "cursor": _together(texts([f"{one.number}." for one in batches]), numbers),
        "place": _together(texts([f"{one.number:032x}" for one in batches]), digits),
    }


@cache
def _rows(bits: int) -> pyarrow.Array:
    return pyarrow.array(range(1 << bits), pyarrow.int64())


@cache
def _parts(bits: int) -> tuple[pyarrow.Array, pyarrow.Array]:
    """The second parts of cursors and of places; the same ones come again and again."""
    all_of_them = range(1 << bits)
    numbers = pyarrow.array([str(used) for used in all_of_them], TEXT)
    return numbers, pyarrow.array([f"{used:08x}" for used in all_of_them], TEXT)


def _together(heads: pyarrow.Array, tails: pyarrow.Array) -> pyarrow.Array:
    return pyarrow.compute.binary_join_element_wise(heads, tails, "")


# --- what each entry says ---


def _of_entries(batches: Sequence[Batch], schema: pyarrow.Schema) -> dict[str, pyarrow.Array]:
    page = _Page()
    for batch in batches:
        page.add(batch.entries)
    runs = _Runs(page.sizes)
    columns = {
        name: runs.column(values, schema.field(name).type)
        for name, values in _fields(page.entries).items()
    }
    return columns | {"id": page.ids()}


class _Page:
    """Entries by the run: those that are alike but for their ids are one, any other is its own."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        """The first of each run."""
        self.sizes: list[int] = []
        self._ids: list[pyarrow.Array] = []
        self._named = 0
        """Runs whose ids are there already."""

    def add(self, entries: Sequence[Entry]) -> None:
        """The entries of one batch."""
        alike = entries.alike() if isinstance(entries, Unread) else []
        ids = [_ids(one) for one in alike]
        if not ids or any(some is None for some in ids):
            self.entries += entries
            self.sizes += [1] * len(entries)
            return
        self._name()
        self._ids += ids
        self._named += len(ids)
        self.entries += [one.entry for one in alike]
        self.sizes += map(len, alike)

    def ids(self) -> pyarrow.Array:
        """The ids of all entries."""
        self._name()
        return pyarrow.concat_arrays(self._ids)

    def _name(self) -> None:
        unnamed = [entry.id for entry in self.entries[self._named :]]
        self._ids.append(pyarrow.array(unnamed, TEXT))
        self._named = len(self.entries)


def _ids(alike: Alike) -> pyarrow.Array | None:
    """The ids of entries that are alike; None if they turn out to differ by something else, too."""
    length = alike.ids.stop - alike.ids.start
    rows = numpy.frombuffer(alike.rows, _row(alike.ids.start, length, alike.width))
    for side in ("before", "behind"):
        if rows[side].tobytes() != rows[side][:1].tobytes() * len(rows):
            return None
    ends = numpy.arange(len(rows) + 1, dtype=numpy.int32) * numpy.int32(length)
    texts = pyarrow.py_buffer(rows["id"].tobytes())
    return pyarrow.StringArray.from_buffers(len(rows), pyarrow.py_buffer(ends), texts)


@cache
def _row(start: int, length: int, width: int) -> numpy.dtype[Any]:
    """Of so many bytes, an id of some length in the middle."""
    sizes = {"before": start, "id": length, "behind": width - start - length}
    return numpy.dtype([(name, f"V{size}") for name, size in sizes.items()])


def _fields(entries: list[Entry]) -> dict[str, list[Any]]:
    """All that the columns tell of an entry but its id."""
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
    }
