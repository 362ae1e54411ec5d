"""Columns that hold JSON already."""

from __future__ import annotations

import msgspec

from ackline.errors import InvalidPayload

_look_through = msgspec.json.Decoder(msgspec.Raw).decode


def json_bytes(column: str, value: str | bytes) -> bytes:
    """JSON as it stands, byte for byte, or `InvalidPayload`."""
    data = value.encode() if isinstance(value, str) else value
    try:
        _look_through(data)
        if isinstance(value, bytes):
            value.decode()
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidPayload(f"the {column} is no JSON: {error}") from None
    except RecursionError:
        raise InvalidPayload(f"the {column} is nested too deeply to be read") from None
    return data
