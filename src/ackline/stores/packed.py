"""How SQLite and PostgreSQL keep one batch of the journal: as msgpack, entry by entry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from ackline.events import Alike, Entry, Unread

T = TypeVar("T")

MANY = 32
"""Batches of at least this many entries are decoded late: readers of columns try `alike` first."""

pack = msgspec.msgpack.Encoder().encode
"""One batch as bytes."""

_decode = msgspec.msgpack.Decoder(list[Entry]).decode
_decode_one = msgspec.msgpack.Decoder(Entry).decode


def unpack(packed: bytes) -> Sequence[Entry]:
    """The entries of one packed batch; a large batch is not decoded before it is looked at."""
    size = count(packed)
    return Unread(_Packed(packed), range(size)) if size >= MANY else _decode(packed)


def count(packed: bytes) -> int:
    """How many entries a packed batch has, without decoding them."""
    start = _start(packed)
    return packed[0] & 0x0F if start == 1 else int.from_bytes(packed[1:start])


def _start(packed: bytes) -> int:
    """Where the first value of a list begins: behind the list's header of 1, 3 or 5 bytes."""
    return {0xDC: 3, 0xDD: 5}.get(packed[0], 1)


def first_row(packed: bytes, decode: Callable[[bytes], T]) -> tuple[T, bytes, int] | None:
    """The first value of a packed list, all values as rows of bytes, and how wide a row is.

    None if the first value already shows that they are not all of one width.
    """
    rows = packed[_start(packed) :]
    width, rest = divmod(len(rows), count(packed))
    if rest:
        return None
    try:
        return decode(rows[:width]), rows, width
    except msgspec.DecodeError:
        return None


class _Packed(msgspec.Struct, frozen=True, gc=False):
    packed: bytes

    def unpack(self) -> list[Entry]:
        return _decode(self.packed)

    def alike(self) -> list[Alike]:
        even = first_row(self.packed, _decode_one)
        if even is None:
            return []
        entry, rows, width = even
        first = rows[:width]
        before, act_and_id, _ = first.partition(pack(entry.act) + pack(entry.id))
        if not act_and_id:
            return []
        end = len(before) + len(act_and_id)
        return [Alike(entry, first, rows, width, slice(end - len(entry.id.encode()), end))]
