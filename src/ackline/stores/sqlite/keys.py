"""The small key-value room: keys are tuples, kept in their order and never confused."""

from __future__ import annotations

from collections.abc import Sequence

from ackline.stores.base import Key, KeyWrite
from ackline.stores.sqlite.connection import Execute
from ackline.stores.sqlite.lines import next_number
from ackline.stores.sqlite.queries import sql
from ackline.stores.sqlite.transaction import Transaction

_END = b"\x00\x01"
_NUL = b"\x00\xff"
_AFTER = b"\xff"
"""No UTF-8 has this byte, so it stands behind every longer key."""


def encode_key(key: tuple[str, ...]) -> bytes:
    """Bytes that sort as the tuples do, and no two tuples share."""
    return b"".join(part.encode().replace(b"\x00", _NUL) + _END for part in key)


def decode_key(data: bytes) -> tuple[str, ...]:
    """Read back what `encode_key` wrote."""
    parts = data.split(_END)[:-1]
    return tuple(part.replace(_NUL, b"\x00").decode() for part in parts)


def read_keys(execute: Execute, tenant: str, prefix: tuple[str, ...], limit: int) -> list[Key]:
    """The keys that start with these parts."""
    start = encode_key(prefix)
    rows = execute(sql("read_keys"), (tenant, start, start + _AFTER, limit))
    return [Key(key=decode_key(key), value=value, version=version) for key, value, version in rows]


def put_key(tx: Transaction, tenant: str, key: tuple[str, ...], value: bytes) -> None:
    """Set a key under a version that was never used before."""
    tx.execute(sql("put_key"), (tenant, encode_key(key), value, next_number(tx, "version")))


def write_keys(tx: Transaction, tenant: str, writes: Sequence[KeyWrite]) -> bool:
    """Apply all writes, or none."""
    for write in writes:
        rows = tx.execute(sql("key_version"), (tenant, encode_key(write.key))).fetchall()
        version = rows[0][0] if rows else 0
        if write.version is not None and write.version != version:
            return False
    for write in writes:
        if write.value is None:
            tx.execute(sql("drop_key"), (tenant, encode_key(write.key)))
        else:
            put_key(tx, tenant, write.key, write.value)
    return True
