"""Lists as parameters of a statement, in PostgreSQL's binary form and of one type each.

The client's own lists take their type from their values, so that a list of nothing, or of small
numbers, would be another statement to prepare.
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

    __slots__ = ("values",)

    def __init__(self, values: Sequence[int]) -> None:
        self.values = values


class Floats:
    """Times, as double precision[]."""

    __slots__ = ("values",)

    def __init__(self, values: Sequence[float]) -> None:
        self.values = values


class Blobs:
    """Bytes or nothing, as bytea[]."""

    __slots__ = ("values",)

    def __init__(self, values: Sequence[bytes | None]) -> None:
        self.values = values


def _fixed(kind: int, letter: str, values: Sequence[Any]) -> bytes:
    count = len(values)
    flat: list[Any] = [8] * (2 * count)
    flat[1::2] = values
    return _HEAD(1, 0, kind, count, 1) + struct.pack(f">{('i' + letter) * count}", *flat)


class _IntsDumper(Dumper):
    format = Format.BINARY
    oid = 1016

    def dump(self, obj: Ints) -> bytes:
        return _fixed(20, "q", obj.values)


class _FloatsDumper(Dumper):
    format = Format.BINARY
    oid = 1022

    def dump(self, obj: Floats) -> bytes:
        return _fixed(701, "d", obj.values)


class _BlobsDumper(Dumper):
    format = Format.BINARY
    oid = 1001

    def dump(self, obj: Blobs) -> bytes:
        values = obj.values
        parts = [_HEAD(1, 1, 17, len(values), 1)]
        for value in values:
            if value is None:
                parts.append(_NULL)
            else:
                parts += (_LENGTH(len(value)), value)
        return b"".join(parts)


def register(context: AdaptContext) -> None:
    """Let a connection take these, and plain numbers as bigint."""
    adapters = context.adapters
    adapters.register_dumper(Ints, _IntsDumper)
    adapters.register_dumper(Floats, _FloatsDumper)
    adapters.register_dumper(Blobs, _BlobsDumper)
    adapters.register_dumper(int, Int8BinaryDumper)
