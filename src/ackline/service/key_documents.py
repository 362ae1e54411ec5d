"""Keys as clients see them."""

from __future__ import annotations

import msgspec

from ackline.queue.documents import raw_or_base64
from ackline.stores.base import Key


class KeyDocument(msgspec.Struct):
    """One key: its parts, its value, and a number that changes with each write."""

    key: tuple[str, ...]
    value: msgspec.Raw
    version: int


class GoneDocument(msgspec.Struct):
    """A key that is gone."""

    key: tuple[str, ...]


def key_document(entry: Key) -> KeyDocument:
    """A key with its value; this reads the whole value, to see whether it is JSON."""
    return KeyDocument(entry.key, raw_or_base64(entry.value), entry.version)
