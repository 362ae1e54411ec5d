"""The key-value store of a tenant."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from ackline.stores.contract import KeyValue, KeyWrite
from ackline.stores.postgres.io.pipeline import ByteStrings
from ackline.stores.postgres.io.transaction import Transaction
from ackline.stores.shared.byte_limit import ByteLimit
from ackline.stores.shared.key_encoding import decode_key, encode_key, key_range


def read_keys(
    tx: Transaction,
    tenant: str,
    prefix: tuple[str, ...],
    limit: int,
    after: tuple[str, ...] | None,
    max_bytes: int | None,
) -> list[KeyValue]:
    """The keys that start with `prefix` and come after the key `after`."""
    start, end = key_range(prefix, after)
    values = {"tenant": tenant.encode(), "start": start, "end": end, "limit": limit}
    most = ByteLimit(max_bytes).remaining
    if most is None:
        rows = tx.rows("read_keys", values)
    else:
        rows = tx.rows("read_keys_within", values | {"max_bytes": most})
    return [
        KeyValue(key=decode_key(key), value=value, version=version) for key, value, version in rows
    ]


def write_keys(tx: Transaction, tenant: str, writes: Sequence[KeyWrite]) -> bool:
    """Apply all writes, or none."""
    owner = tenant.encode()
    if any(write.version is not None for write in writes):
        tx.send("lock_keys", {"tenant": zlib.crc32(owner)})
        keys = ByteStrings([encode_key(write.key) for write in writes])
        versions: dict[bytes, int] = dict(tx.rows("key_versions", {"tenant": owner, "keys": keys}))
        for write in writes:
            version = versions.get(encode_key(write.key), 0)
            if write.version is not None and write.version != version:
                return False
    for write in writes:
        values = {"tenant": owner, "key": encode_key(write.key)}
        if write.value is None:
            tx.send("delete_key", values)
        else:
            tx.send("put_key", values | {"value": write.value})
    return True
