"""Keys as JSON documents."""

from __future__ import annotations

import msgspec

from ackline.queue.transfer.documents import raw_or_base64
from ackline.stores.contract import KeyValue


class KeyDocument(msgspec.Struct):
    """One key: its parts, its value, and a number that changes with each write."""

    key: tuple[str, ...]
    value: msgspec.Raw
    version: int


class DeletedKeyDocument(msgspec.Struct):
    """A key that was deleted."""

    key: tuple[str, ...]


def key_document(entry: KeyValue) -> KeyDocument:
    """A key with its value, which is checked to be JSON."""
    return KeyDocument(entry.key, raw_or_base64(entry.value), entry.version)
