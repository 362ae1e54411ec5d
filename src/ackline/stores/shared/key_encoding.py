"""Encode keys as bytes that sort like the tuples and are unique."""

from __future__ import annotations

_TERMINATOR = b"\x00\x01"
_ESCAPED_NUL = b"\x00\xff"

UPPER_BOUND = b"\xff"
"""UTF-8 never has this byte, so it sorts after every longer key."""


def encode_key(key: tuple[str, ...]) -> bytes:
    """Encode a key; the bytes sort like the tuples, and no two tuples have the same."""
    return b"".join(part.encode().replace(b"\x00", _ESCAPED_NUL) + _TERMINATOR for part in key)


def key_range(prefix: tuple[str, ...], after: tuple[str, ...] | None) -> tuple[bytes, bytes]:
    """The range of encoded keys that start with `prefix` and come after the key `after`."""
    start = encode_key(prefix)
    following = b"" if after is None else encode_key(after) + b"\x00"
    return max(start, following), start + UPPER_BOUND


def decode_key(data: bytes) -> tuple[str, ...]:
    """Decode what `encode_key` has encoded."""
    parts = data.split(_TERMINATOR)[:-1]
    return tuple(part.replace(_ESCAPED_NUL, b"\x00").decode() for part in parts)
