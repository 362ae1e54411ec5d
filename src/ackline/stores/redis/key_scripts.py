"""The scripts that read and write keys: one typed function for each, and no other caller."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from ackline.stores.base import Key, KeyWrite
from ackline.stores.keys import decode_key, span_of
from ackline.stores.redis.connection import Connection
from ackline.stores.redis.packing import pack_writes

_VERSION = struct.Struct(">Q")


def run_read_keys(
    connection: Connection,
    room: str,
    prefix: tuple[str, ...],
    after: tuple[str, ...] | None,
    limit: int,
    max_bytes: int | None = None,
) -> list[Key]:
    """The keys of a room that start with `prefix` and come after the key `after`."""
    most = "" if max_bytes is None else max_bytes
    flat = connection.run("read_keys", [room], [*span_of(prefix, after), limit, most])
    return [
        Key(
            key=decode_key(flat[index]),
            value=flat[index + 1][_VERSION.size :],
            version=_VERSION.unpack_from(flat[index + 1])[0],
        )
        for index in range(0, len(flat), 2)
    ]


def run_write_keys(
    connection: Connection, room: str, writes: Sequence[KeyWrite], *, insist: bool
) -> bool:
    """Apply all writes to a room, or none; with `insist`, even if memory is short."""
    arguments = ["insist" if insist else "", *pack_writes(writes)]
    return bool(connection.run_safely("write_keys", [room], arguments))
