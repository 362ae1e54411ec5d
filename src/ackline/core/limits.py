"""Limits of names, priorities, durations and texts, and their checks."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Sequence
from typing import Any, overload
from urllib.parse import urlsplit

from ackline.core.errors import InvalidName, InvalidOption

Seconds = float | datetime.timedelta
"""A duration: a number of seconds, or a `timedelta`."""

Time = float | datetime.datetime
"""A point in time: seconds since 1970, or a `datetime` with a time zone."""

MAX_NAME_BYTES = 512
MAX_KEY_BYTES = 2048
MAX_KEY_PARTS = 64
MAX_URL_LENGTH = 2048
MAX_NOTE_LENGTH = 1_000
"""Characters of a note or a `by` in the journal: readers get many entries at once."""
MAX_TRACEBACK_LENGTH = 16_384
MAX_MESSAGE_LENGTH = 16_384
_ELLIPSIS_LENGTH = 40
"""Characters reserved for the number of those that are cut off a message."""
MAX_DELAY = 10 * 365 * 86400.0
MIN_LEASE = 0.01
"""Seconds; a shorter lease would expire before the job can start or be extended."""
MIN_PRIORITY, DEFAULT_PRIORITY, MAX_PRIORITY = 0, 5, 9

RESERVED_KEY_PREFIX = "ackline"
"""The first part of keys that Ackline writes itself: schedule ticks, cursors of readers, …"""

IDEMPOTENCY_ID_PREFIXES = ("idempotency-key:", "idempotency-key-of-many:")
"""Prefixes of the ids of jobs enqueued over HTTP with an Idempotency-Key, one or in bulk."""


def require_text(what: str, text: object) -> None:
    """Raise unless given a str: for example, a job where its id is expected."""
    if not isinstance(text, str):
        raise _not_a_str(what, text)


def _not_a_str(what: str, given: object) -> InvalidName:
    hint = f": pass its {what}" if hasattr(given, what) else ""
    return InvalidName(f"the {what} must be a str, not {type(given).__name__}{hint}")


def require_name(what: str, name: object) -> None:
    """Raise for a name that a store could not keep byte for byte."""
    if not isinstance(name, str):
        raise _not_a_str(what, name)
    if name.isascii():
        size = len(name)
    else:
        try:
            size = len(name.encode())
        except UnicodeEncodeError as error:
            raise InvalidName(f"the {what} {name!r} is not valid Unicode: {error.reason}") from None
    if not 1 <= size <= MAX_NAME_BYTES:
        raise InvalidName(f"the {what} must have 1 to {MAX_NAME_BYTES} bytes of UTF-8, not {size}")


def reject_reserved_id(id: str, request: str | None) -> None:
    """Raise for an id that is reserved for requests with an Idempotency-Key."""
    if id.startswith(IDEMPOTENCY_ID_PREFIXES) and request is None:
        raise InvalidName(
            f"ids that begin with {' or '.join(IDEMPOTENCY_ID_PREFIXES)} belong to jobs that were "
            "enqueued with an Idempotency-Key: choose another id"
        )


def require_user_key(key: Sequence[str]) -> None:
    """Raise for a key that is reserved for Ackline, or too long for a store's index."""
    if tuple(key[:1]) == (RESERVED_KEY_PREFIX,):
        raise InvalidOption(
            f"keys starting with {RESERVED_KEY_PREFIX!r} are reserved: choose another first part"
        )
    if not 1 <= len(key) <= MAX_KEY_PARTS:
        raise InvalidOption(f"a key has 1 to {MAX_KEY_PARTS} parts, not {len(key)}")
    for part in key:
        require_name("part of a key", part)
    # As stores encode it: each part has a terminator, and a NUL is escaped.
    size = sum(len(part.encode("utf-8", "replace")) + part.count("\0") + 2 for part in key)
    if size > MAX_KEY_BYTES:
        raise InvalidOption(
            f"a key may be at most {MAX_KEY_BYTES:,} bytes of UTF-8 (each part counts two extra "
            f"bytes); this one has {size:,}"
        )


def escape_invalid_unicode(text: str) -> str:
    r"""Escape what is not valid Unicode, so that every store can keep the text.

    >>> escape_invalid_unicode("a file's name that is not UTF-8: \udcff")
    "a file's name that is not UTF-8: \\udcff"
    """
    require_text("text for the journal", text)
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def truncate_note(text: str) -> str:
    """Escape a note or a `by` and cut it off after `MAX_NOTE_LENGTH`.

    >>> len(truncate_note("x" * 5_000_000))
    1000
    """
    text = escape_invalid_unicode(text)
    return text if len(text) <= MAX_NOTE_LENGTH else text[: MAX_NOTE_LENGTH - 1] + "…"


def truncate_message(text: str) -> str:
    """Escape an error message and cut it off after `MAX_MESSAGE_LENGTH`.

    >>> truncate_message("x" * 1_000_000)[-30:]
    'xxx… (983,656 more characters)'
    """
    if len(text) > MAX_MESSAGE_LENGTH:
        kept = MAX_MESSAGE_LENGTH - _ELLIPSIS_LENGTH
        text = f"{text[:kept]}… ({len(text) - kept:,} more characters)"
    return escape_invalid_unicode(text)


def truncate_traceback(text: str) -> str:
    """Escape a traceback and keep its end, which is the most useful part."""
    return escape_invalid_unicode(text[-MAX_TRACEBACK_LENGTH:])


def as_names(given: Iterable[str] | None, what: str = "kinds") -> frozenset[str] | None:
    """The names that a caller passed: one str is one name, not its letters; None remains None.

    >>> sorted(as_names(["mail", "image"])), sorted(as_names("mail"))
    (['image', 'mail'], ['mail'])
    """
    if given is None:
        return None
    items: Any = [given] if isinstance(given, str) else given
    names = list(items) if isinstance(items, Iterable) else [items]
    if not all(isinstance(name, str) for name in names):
        raise InvalidOption(f"{what} must be a list of strings, not {given!r}")
    return frozenset(names)


def require_priority(priority: object) -> None:
    """Raise for a priority outside 0 (lowest) to 9 (highest)."""
    inside = type(priority) is int and MIN_PRIORITY <= priority <= MAX_PRIORITY
    if not inside:
        raise InvalidOption(
            f"priority must be a whole number from {MIN_PRIORITY} (lowest) "
            f"to {MAX_PRIORITY} (highest), not {priority!r}"
        )


def require_number(what: str, number: object, minimum: int) -> None:
    """Raise for anything but an integer that is at least `minimum`."""
    if type(number) is not int or number < minimum:
        raise InvalidOption(f"{what} must be a whole number, {minimum} or more, not {number!r}")


def require_seconds(what: str, seconds: float | None, *, above_zero: bool = False) -> None:
    """Raise for a duration that is negative, not a number, or longer than `MAX_DELAY`."""
    if seconds is None:
        return
    inside = type(seconds) in (int, float) and 0 <= seconds <= MAX_DELAY
    if not inside or (above_zero and seconds == 0):
        minimum = "more than 0" if above_zero else "0"
        raise InvalidOption(f"{what} must be {minimum} to {MAX_DELAY:.0f} seconds, not {seconds!r}")


@overload
def as_seconds(duration: Seconds) -> float: ...


@overload
def as_seconds(duration: Seconds | None) -> float | None: ...


def as_seconds(duration: Seconds | None) -> float | None:
    """A duration as a number of seconds; anything but a `timedelta` is returned as it is.

    >>> as_seconds(datetime.timedelta(minutes=5)), as_seconds(30)
    (300.0, 30)
    """
    return duration.total_seconds() if isinstance(duration, datetime.timedelta) else duration


def optional_seconds(
    what: str, duration: Seconds | None, *, above_zero: bool = False
) -> float | None:
    """A duration that a caller may leave out, in seconds; raises like `require_seconds`."""
    seconds = as_seconds(duration)
    require_seconds(what, seconds, above_zero=above_zero)
    return seconds


def some_seconds(what: str, duration: Seconds, *, above_zero: bool = False) -> float:
    """A duration in seconds; raises like `require_seconds`, and for None."""
    seconds = as_seconds(duration)
    if seconds is None:
        raise InvalidOption(f"{what} must be a number of seconds, not None")
    require_seconds(what, seconds, above_zero=above_zero)
    return seconds


def optional_timestamp(what: str, time: Time | None) -> float | None:
    """A time that a caller may leave out, in seconds since 1970; raises for anything else."""
    if isinstance(time, datetime.datetime):
        if time.tzinfo is None:
            raise InvalidOption(f"{what} must be timezone-aware, and {time} is not")
        return time.timestamp()
    if time is not None and (type(time) not in (int, float) or not math.isfinite(time)):
        raise InvalidOption(
            f"{what} must be a datetime or in seconds since 1970, as time.time() returns, "
            f"not {time!r}"
        )
    return time


def require_lease(seconds: float | None) -> None:
    """Raise for a lease that would expire before its job starts."""
    if seconds is None:
        return
    require_seconds("lease", seconds)
    if seconds < MIN_LEASE:
        raise InvalidOption(f"lease must be at least {MIN_LEASE:g} seconds, not {seconds!r}")


def require_url(what: str, url: str) -> None:
    """Raise for anything but a full http or https URL without credentials."""
    plain = url.isascii() and url.isprintable() and " " not in url and len(url) <= MAX_URL_LENGTH
    try:
        parts = urlsplit(url)
        complete = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        complete = False
    if not plain or not complete:
        raise InvalidOption(
            f"{what} must be an http or https URL of at most {MAX_URL_LENGTH} ASCII characters"
        )
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise InvalidOption(f"{what} may have neither credentials nor a fragment (#…)")
