"""Keys of the key-value room as bytes: in the order of the tuples, and never confused."""

from __future__ import annotations

_TERMINATOR = b"\x00\x01"
_ESCAPED_NUL = b"\x00\xff"

UPPER_BOUND = b"\xff"
"""No UTF-8 has this byte, so it stands behind every longer key."""


def encode_key(key: tuple[str, ...]) -> bytes:
    """Bytes that sort as the tuples do, and no two tuples share."""
    return b"".join(part.encode().replace(b"\x00", _ESCAPED_NUL) + _TERMINATOR for part in key)


def key_range(prefix: tuple[str, ...], after: tuple[str, ...] | None) -> tuple[bytes, bytes]:
    """From and to which bytes keys are that start with `prefix` and come after the key `after`."""
    start = encode_key(prefix)
    behind = b"" if after is None else encode_key(after) + b"\x00"
    return max(start, behind), start + UPPER_BOUND


def decode_key(data: bytes) -> tuple[str, ...]:
    """Read back what `encode_key` wrote."""
    parts = data.split(_TERMINATOR)[:-1]
    return tuple(part.replace(_ESCAPED_NUL, b"\x00").decode() for part in parts)
