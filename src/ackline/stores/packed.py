"""How SQLite and PostgreSQL keep one batch of the journal: as msgpack, entry by entry."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import msgspec

from ackline.events import Columns, Entry

MANY = 32
"""From so many entries on it is worth looking whether they are alike."""

pack = msgspec.msgpack.Encoder().encode
"""One batch as bytes."""

_decode = msgspec.msgpack.Decoder(list[Entry]).decode
_decode_one = msgspec.msgpack.Decoder(Entry).decode


def unpack(packed: bytes) -> Sequence[Entry]:
    """The entries of one packed batch."""
    return (_unpack_alike(packed) if count(packed) >= MANY else None) or _decode(packed)


def count(packed: bytes) -> int:
    """How many entries a packed batch has; they are not decoded for it."""
    start = _start(packed)
    return packed[0] & 0x0F if start == 1 else int.from_bytes(packed[1:start])


def _start(packed: bytes) -> int:
    """Where the first entry begins: a list begins with its size, in one, three or five bytes."""
    return {0xDC: 3, 0xDD: 5}.get(packed[0], 1)


def _unpack_alike(packed: bytes) -> Columns | None:
    """Entries that differ by nothing but their ids, as those of one act on many jobs mostly do.

    They have the same bytes between one id and the next, so no more than one of them is decoded.
    """
    rows, size = packed[_start(packed) :], count(packed)
    width, rest = divmod(len(rows), size)
    if rest:
        return None
    try:
        first = _decode_one(rows[:width])
    except msgspec.DecodeError:
        return None
    known, length = pack(first.act) + pack(first.id), len(first.id.encode())
    before, _, behind = rows[:width].partition(known)
    before += known[: len(known) - length]
    ids = [id for (id,) in struct.iter_unpack(f"{len(before)}x{length}s{len(behind)}x", rows)]
    if before + (behind + before).join(ids) + behind != rows:
        return None
    same = {name: [value] * size for name, value in msgspec.structs.asdict(first).items()}
    return Columns([*(same | {"id": [id.decode() for id in ids]}).values()])
