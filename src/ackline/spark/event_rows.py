"""Events as Arrow batches, by the column: most of what neighbours say is the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import accumulate
from typing import Any

import pyarrow
import pyarrow.compute

from ackline.events import Batch, Columns, Entry, Event, Events
from ackline.spark import schemas
from ackline.spark.rows import times

STRETCH = 256
"""Small batches of the journal are looked at together until they have as many entries as this."""

TEXT = pyarrow.string()


def events_batch(events: Sequence[Event]) -> pyarrow.RecordBatch:
    """Events with the columns of `schemas.EVENTS`; of a store's own, none is made for it."""
    schema, batches = schemas.arrow("events"), Events.of(events).batches
    stretches = [_columns(entries) for entries in _stretches(batches)]
    shared = _shared(batches)
    arrays = [
        shared[field.name]
        if field.name in shared
        else _joined([_array(columns[field.name], field.type) for columns in stretches], field.type)
        for field in schema
    ]
    return pyarrow.RecordBatch.from_arrays(arrays, schema=schema)


# --- what a batch says of all its entries ---


def _shared(batches: Sequence[Batch]) -> dict[str, pyarrow.Array]:
    ends = list(accumulate(len(one.entries) for one in batches))
    run_ends = pyarrow.array(ends, pyarrow.int32())

    def spread(values: pyarrow.Array) -> pyarrow.Array:
        runs = pyarrow.RunEndEncodedArray.from_arrays(run_ends, values)
        return pyarrow.compute.run_end_decode(runs)

    def texts(values: list[str]) -> pyarrow.Array:
        return spread(pyarrow.array(values, TEXT))

    # The second part of a cursor says how many rows of its batch, and those left out, come first.
    offsets = [one.end[1] - end for one, end in zip(batches, ends, strict=True)]
    most = max((one.end[1] for one in batches), default=0)
    rows = _rows(max(ends, default=0).bit_length()).slice(1, ends[-1] if ends else 0)
    used = pyarrow.compute.add(rows, spread(pyarrow.array(offsets, pyarrow.int64())))
    numbers, digits = (parts.take(used) for parts in _parts(most.bit_length()))
    return {
        "tenant": texts([one.queue.tenant for one in batches]),
        "queue": texts([one.queue.name for one in batches]),
        "at": spread(times([one.at for one in batches])),
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


def _stretches(batches: Sequence[Batch]) -> Iterator[Sequence[Entry]]:
    small: list[Entry] = []
    for batch in batches:
        large = len(batch.entries) >= STRETCH
        if not large:
            small += batch.entries
        if small and (large or len(small) >= STRETCH):
            yield small
            small = []
        if large:
            yield batch.entries
    if small:
        yield small


def _columns(entries: Sequence[Entry]) -> dict[str, list[Any]]:
    return dict(zip(Entry.__struct_fields__, Columns.of(entries).fields, strict=True))


def _array(values: list[Any], kind: pyarrow.DataType) -> pyarrow.Array:
    first = values[0]
    # Comparing costs far less than writing, and where values differ the last one mostly does.
    if first == values[-1] and values.count(first) == len(values):
        return pyarrow.repeat(pyarrow.scalar(first, kind), len(values))
    return pyarrow.array(values, kind)


def _joined(arrays: list[pyarrow.Array], kind: pyarrow.DataType) -> pyarrow.Array:
    return pyarrow.concat_arrays(arrays) if arrays else pyarrow.array([], kind)
