"""Journal batches as SQLite and PostgreSQL store them: a msgpack list of entries.

Readers of columns, such as the data pipeline, need not decode every entry: see `uniform_runs`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar, runtime_checkable

import msgspec

from ackline.core.events import Entry, LazyEntries, PackedEntries

T = TypeVar("T")

LAZY_FROM = 32
"""Batches of at least this many entries are decoded late, for readers of columns."""


class UniformRun(msgspec.Struct, frozen=True, gc=False):
    """Entries that seem to differ only in their ids, in the encoding of their store.

    They are rows of bytes of equal width. If the bytes around the ids equal those of `first`, then
    everything but the ids is as in `entry`, and no other entry has to be decoded.
    """

    entry: Entry
    first: bytes
    """The row of `entry`, which need not be among `rows`."""
    rows: bytes
    width: int
    ids: slice
    """The position of the id in a row, without its encoded length."""

    def __len__(self) -> int:
        return len(self.rows) // self.width

    def part(self, start: int, end: int) -> UniformRun:
        """The rows from `start` to `end`."""
        rows = self.rows[max(start, 0) * self.width : max(end, 0) * self.width]
        return UniformRun(self.entry, self.first, rows, self.width, self.ids)


@runtime_checkable
class ColumnarBatch(PackedEntries, Protocol):
    """A packed batch whose entries need not all be decoded."""

    def uniform_runs(self) -> list[UniformRun]:
        """All entries in uniform runs; empty if they cannot be grouped like that."""
        ...


def uniform_runs(entries: Sequence[Entry]) -> list[UniformRun]:
    """These entries in uniform runs, still packed; empty if they cannot be grouped like that."""
    if not isinstance(entries, LazyEntries) or not isinstance(entries.packed, ColumnarBatch):
        return []
    parts: list[UniformRun] = []
    start, end = entries.indexes.start, entries.indexes.stop
    for run in entries.packed.uniform_runs():
        parts.append(run.part(start, end))
        start, end = start - len(run), end - len(run)
    return [run for run in parts if run.rows]


pack_entries = msgspec.msgpack.Encoder().encode
"""One batch as bytes."""

_decode = msgspec.msgpack.Decoder(list[Entry]).decode
_decode_one = msgspec.msgpack.Decoder(Entry).decode


def unpack_entries(packed: bytes) -> Sequence[Entry]:
    """The entries of a packed batch; a large batch is decoded only when an entry is read."""
    size = count_entries(packed)
    return LazyEntries(_PackedBatch(packed), range(size)) if size >= LAZY_FROM else _decode(packed)


def count_entries(packed: bytes) -> int:
    """How many entries a packed batch has, without decoding them."""
    start = _header_size(packed)
    return packed[0] & 0x0F if start == 1 else int.from_bytes(packed[1:start])


def _header_size(packed: bytes) -> int:
    """The size of a packed list's header: 1, 3 or 5 bytes."""
    return {0xDC: 3, 0xDD: 5}.get(packed[0], 1)


def split_rows(packed: bytes, decode: Callable[[bytes], T]) -> tuple[T, bytes, int] | None:
    """The first value of a packed list, all values as rows of bytes, and the width of a row.

    None if the first value already shows that they are not of equal width.
    """
    rows = packed[_header_size(packed) :]
    width, rest = divmod(len(rows), count_entries(packed))
    if rest:
        return None
    try:
        return decode(rows[:width]), rows, width
    except msgspec.DecodeError:
        return None


class _PackedBatch(msgspec.Struct, frozen=True, gc=False):
    packed: bytes

    def unpack(self) -> list[Entry]:
        return _decode(self.packed)

    def uniform_runs(self) -> list[UniformRun]:
        split = split_rows(self.packed, _decode_one)
        if split is None:
            return []
        entry, rows, width = split
        first = rows[:width]
        before, act_and_id, _ = first.partition(pack_entries(entry.act) + pack_entries(entry.id))
        if not act_and_id:
            return []
        end = len(before) + len(act_and_id)
        return [UniformRun(entry, first, rows, width, slice(end - len(entry.id.encode()), end))]


# --- reading ---

FIRST_READ_SIZE, MAX_READ_SIZE = 4, 200
"""How many batches are read per step; few at first, because readers mostly want a few events."""


def next_read_size(wanted: int, sizes: Sequence[int]) -> int:
    """How many batches have the wanted number of events, if they are as large as the previous ones.

    >>> next_read_size(6000, [1000, 1000, 1000, 1000]), next_read_size(6000, [1, 1, 1, 1])
    (6, 200)
    """
    needed = -(-wanted * len(sizes) // sum(sizes))
    return max(1, min(needed, MAX_READ_SIZE))
