"""The key-value store of a tenant."""

from __future__ import annotations

from collections.abc import Sequence

from ackline.stores.contract import KeyValue, KeyWrite
from ackline.stores.shared.byte_limit import ByteLimit
from ackline.stores.shared.key_encoding import decode_key, encode_key, key_range
from ackline.stores.sqlite.io.connection import Execute
from ackline.stores.sqlite.io.transaction import Transaction
from ackline.stores.sqlite.queue_writer import next_number
from ackline.stores.sqlite.sql import sql


def read_keys(
    execute: Execute,
    tenant: str,
    prefix: tuple[str, ...],
    limit: int,
    after: tuple[str, ...] | None,
    max_bytes: int | None,
) -> list[KeyValue]:
    """The keys that start with `prefix` and come after the key `after`."""
    rows = execute(sql("read_keys"), (tenant, *key_range(prefix, after), limit))
    within = ByteLimit(max_bytes).limit(rows, lambda row: len(row[1]))
    return [
        KeyValue(key=decode_key(key), value=value, version=version)
        for key, value, version in within
    ]


def put_key(tx: Transaction, tenant: str, key: tuple[str, ...], value: bytes) -> None:
    """Set a key, with a version that was never used before."""
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
