"""Columns that hold JSON already."""

from __future__ import annotations

import json

import msgspec

from ackline.core.errors import InvalidPayload

_look_through = msgspec.json.Decoder(msgspec.Raw).decode


def validated_json(column: str, value: str | bytes) -> bytes:
    """JSON as it stands, byte for byte, or `InvalidPayload`."""
    data = value.encode() if isinstance(value, str) else value
    try:
        _look_through(data)
        if isinstance(value, bytes):
            value.decode()
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if half := _lone_surrogate(data):
            raise InvalidPayload(
                f"the {column} has {half!r}, which is half of a character and cannot be stored: "
                "write the other half, too, or replace it"
            ) from None
        raise InvalidPayload(f"the {column} is no JSON: {error}") from None
    except RecursionError:
        raise InvalidPayload(f"the {column} is nested too deeply to be read") from None
    return data


def _lone_surrogate(data: bytes) -> str | None:
    """The first escaped surrogate of JSON without its partner.

    Python's own reader takes it, and it cannot be written as UTF-8.
    """
    try:
        json.dumps(json.loads(data), ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        return str(error.object[error.start])
    except (ValueError, RecursionError):
        pass
    return None
