"""What a name, a priority and a span of time may be."""

from __future__ import annotations

from collections.abc import Sequence

from ackline.errors import InvalidName, InvalidOption

LONGEST_NAME = 512
LONGEST_DELAY = 10 * 365 * 86400.0
LOWEST_PRIORITY, DEFAULT_PRIORITY, HIGHEST_PRIORITY = 0, 5, 9

OWN_KEYS = "ackline"
"""The first part of keys that Ackline writes for itself: ticks of schedules, places of readers."""


def require_name(what: str, name: object) -> None:
    """Refuse a name that a store could not keep byte for byte."""
    if not isinstance(name, str):
        raise InvalidName(f"the {what} must be a str, not {type(name).__name__}")
    if name.isascii():
        size = len(name)
    else:
        try:
            size = len(name.encode())
        except UnicodeEncodeError as error:
            raise InvalidName(f"the {what} {name!r} is not valid Unicode: {error.reason}") from None
    if not 1 <= size <= LONGEST_NAME:
        raise InvalidName(f"the {what} must have 1 to {LONGEST_NAME} bytes of UTF-8, not {size}")


def require_others_key(key: Sequence[str]) -> None:
    """Refuse a key that Ackline writes for itself."""
    if tuple(key[:1]) == (OWN_KEYS,):
        raise InvalidOption(
            f"keys whose first part is {OWN_KEYS!r} are Ackline's own: begin yours with another"
        )


def storable(text: str) -> str:
    r"""A text that every store can keep: what is not valid Unicode is spelled out.

    >>> storable("a file's name that is not UTF-8: \udcff")
    "a file's name that is not UTF-8: \\udcff"
    """
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def require_priority(priority: object) -> None:
    """Refuse a priority outside 0 (lowest) to 9 (highest)."""
    inside = type(priority) is int and LOWEST_PRIORITY <= priority <= HIGHEST_PRIORITY
    if not inside:
        raise InvalidOption(
            f"priority must be a whole number from {LOWEST_PRIORITY} (lowest) "
            f"to {HIGHEST_PRIORITY} (highest), not {priority!r}"
        )


def require_seconds(what: str, seconds: float | None, *, above_zero: bool = False) -> None:
    """Refuse a span of time that is negative, not a number, or absurdly long."""
    if seconds is None:
        return
    inside = type(seconds) in (int, float) and 0 <= seconds <= LONGEST_DELAY
    if not inside or (above_zero and seconds == 0):
        least = "more than 0" if above_zero else "0"
        raise InvalidOption(
            f"{what} must be {least} to {LONGEST_DELAY:.0f} seconds, not {seconds!r}"
        )
