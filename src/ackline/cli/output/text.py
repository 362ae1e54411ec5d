"""Times, numbers and JSON as text."""

from __future__ import annotations

import datetime
import json
from typing import Any

from ackline.logs import escape_control_characters


def safe(text: str) -> str:
    """A name or message on one line, its control characters made visible and harmless."""
    return escape_control_characters(text)


def safe_lines(text: str) -> str:
    """The same for a text of several lines."""
    return "\n".join(safe(line.replace("\t", "    ")) for line in text.splitlines())


def duration(seconds: float) -> str:
    """A span of time in two or three digits: 0.25 s, 12 s, 3 min, 5.2 h, 12 d."""
    seconds = max(seconds, 0.0)
    if seconds < 0.995:
        return f"{seconds:.2f} s"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    for unit, size in (("min", 60.0), ("h", 3600.0), ("d", 86400.0)):
        count = seconds / size
        if count < (120 if unit == "min" else 48) or unit == "d":
            return f"{count:.1f} {unit}" if count < 10 else f"{count:.0f} {unit}"
    raise AssertionError


def timestamp(at: float | None, now: float | None = None) -> str:
    """A time in the local time zone, with its distance from `now` if given."""
    if at is None:
        return ""
    text = datetime.datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    if now is None:
        return text
    return f"{text} (in {duration(at - now)})" if at > now else f"{text} ({duration(now - at)} ago)"


def time_of_day(at: float) -> str:
    """The time of day to the millisecond."""
    return datetime.datetime.fromtimestamp(at).astimezone().strftime("%H:%M:%S.%f")[:-3]


def pluralize(number: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun: 1 job, 2 jobs, 1,000 jobs."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def compact_number(number: float, decimals: int = 0) -> str:
    """A number in few digits: 12.5, 999,999, 1.25M."""
    if number < 100:
        return f"{number:.{decimals}f}"
    if number < 999_999.5:
        return f"{number:,.0f}"
    return f"{number / 1e6:,.2f}M"


def truncate(text: str, length: int) -> str:
    """The beginning of a text that is too long."""
    return text if len(text) <= length else text[: length - 1] + "…"


def pretty_json(value: Any, limit: int | None = 2000) -> str:
    """Indented JSON, cut off with a note when it is long."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    if limit is None or len(text) <= limit:
        return text
    return f"{text[:limit]}\n… {len(text):,} characters in total, --full shows them all"
