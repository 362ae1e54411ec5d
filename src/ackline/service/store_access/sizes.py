"""How large batches, keys and values of a caller may be."""

from __future__ import annotations

from ackline.errors import InvalidOption, PayloadTooLarge
from ackline.limits import LONGEST_NAME, MOST_PARTS
from ackline.service.auth.caller import Caller
from ackline.stores.base import Filter, KeyWrite

MOST = 10_000
"""Jobs, events or keys that one answer has at most."""

MOST_NAMES = 1000
"""Queues that one listener hears."""


def require_limit(limit: int) -> None:
    """Refuse a limit above `MOST`."""
    if not 0 <= limit <= MOST:
        raise InvalidOption(f"limit must be 0 to {MOST:,}, not {limit}")


def require_ids(which: Filter | None) -> None:
    """Refuse a filter with more than `MOST` ids."""
    if which is not None and len(which.ids or ()) > MOST:
        raise InvalidOption(f"which has {len(which.ids or ()):,} ids; the limit is {MOST:,}")


def require_write(caller: Caller, write: KeyWrite) -> None:
    """Refuse a key or a value that is too large."""
    if not 1 <= len(write.key) <= MOST_PARTS or any(
        len(part.encode()) > LONGEST_NAME for part in write.key
    ):
        raise InvalidOption(f"a key has 1 to {MOST_PARTS} parts of up to {LONGEST_NAME} bytes each")
    require_size(caller, "value of a key", write.value)


def require_size(caller: Caller, what: str, data: bytes | None) -> None:
    """Refuse what is larger than a payload may be."""
    most = caller.runtime.settings.max_payload
    if data is not None and len(data) > most:
        raise PayloadTooLarge(what, len(data), most)
