"""Lists as parameters of a statement, in PostgreSQL's binary form and of one type each.

The client derives the type of a list from its values, so that an empty list, or one of small
numbers, would need another prepared statement.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from psycopg.abc import AdaptContext
from psycopg.adapt import Dumper
from psycopg.pq import Format
from psycopg.types.numeric import Int8BinaryDumper

_HEAD = struct.Struct(">iiIii").pack
_LENGTH = struct.Struct(">i").pack
_NULL = _LENGTH(-1)


class Ints:
    """Whole numbers, as bigint[]."""

    oid = 1016
    __slots__ = ("values",)

    def __init__(self, values: Sequence[int]) -> None:
        self.values = values

    def dump(self) -> bytes:
        return _fixed(20, "q", self.values)


class Floats:
    """Times, as double precision[]."""

    oid = 1022
    __slots__ = ("values",)

    def __init__(self, values: Sequence[float]) -> None:
        self.values = values

    def dump(self) -> bytes:
        return _fixed(701, "d", self.values)


class Blobs:
    """Bytes or nothing, as bytea[]."""

    oid = 1001
    __slots__ = ("values",)

    def __init__(self, values: Sequence[bytes | None]) -> None:
        self.values = values

    def dump(self) -> bytes:
        return _of_any_length(17, self.values)


def dump_texts(values: Sequence[str]) -> bytes:
    """Plain strings, as text[]."""
    return _of_any_length(25, [value.encode() for value in values])


def _fixed(kind: int, letter: str, values: Sequence[Any]) -> bytes:
    count = len(values)
    flat: list[Any] = [8] * (2 * count)
    flat[1::2] = values
    return _HEAD(1, 0, kind, count, 1) + struct.pack(f">{('i' + letter) * count}", *flat)


def _of_any_length(kind: int, values: Sequence[bytes | None]) -> bytes:
    parts = [_HEAD(1, 1, kind, len(values), 1)]
    for value in values:
        if value is None:
            parts.append(_NULL)
        else:
            parts += (_LENGTH(len(value)), value)
    return b"".join(parts)


class _ListDumper(Dumper):
    """Lets the client's own cursors send these lists."""

    format = Format.BINARY

    def dump(self, obj: Ints | Floats | Blobs) -> bytes:
        return obj.dump()


class _IntsDumper(_ListDumper):
    oid = Ints.oid


class _FloatsDumper(_ListDumper):
    oid = Floats.oid


class _BlobsDumper(_ListDumper):
    oid = Blobs.oid


def register(context: AdaptContext) -> None:
    """Let a connection send these lists, and plain numbers as bigint."""
    adapters = context.adapters
    adapters.register_dumper(Ints, _IntsDumper)
    adapters.register_dumper(Floats, _FloatsDumper)
    adapters.register_dumper(Blobs, _BlobsDumper)
    adapters.register_dumper(int, Int8BinaryDumper)
