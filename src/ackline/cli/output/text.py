"""Times, sizes, states and events in words."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from typing import Any

from rich.text import Text

from ackline.core.events import Act, Event
from ackline.core.job import State
from ackline.logs import escape_control_characters

STATE_STYLES: Mapping[State | None, str] = {
    State.SCHEDULED: "blue",
    State.QUEUED: "cyan",
    State.PROCESSING: "yellow",
    State.FAILING: "magenta",
    State.COMPLETED: "green",
    State.FAILED: "bold red",
    State.CANCELLED: "bright_black",
    None: "dim",
}


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
    """A moment by the local clock, with its distance from `now` if given."""
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
    """A number in few places: 12.5, 999,999, 1.25M."""
    if number < 100:
        return f"{number:.{decimals}f}"
    if number < 999_999.5:
        return f"{number:,.0f}"
    return f"{number / 1e6:,.2f}M"


def truncate(text: str, length: int) -> str:
    """The beginning of a text that is too long for its place."""
    return text if len(text) <= length else text[: length - 1] + "…"


def pretty_json(value: Any, limit: int | None = 2000) -> str:
    """JSON to be read, cut with a note when it is long."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    if limit is None or len(text) <= limit:
        return text
    return f"{text[:limit]}\n… cut: {len(text):,} characters in all, --full shows them"


def event_text(event: Event) -> str:
    """An event as a sentence without its subject."""
    note = f": {safe(event.note)}" if event.note else ""
    by = f" by {safe(event.by)}" if event.by else ""
    again = f"attempt {event.attempt}"
    match event.act, event.to:
        case Act.CLAIM, _:
            text = f"claimed, {again}, worker {safe(event.worker)}"
        case Act.COMPLETE, _:
            text = f"completed, {again}"
        case Act.FAIL, State.FAILED:
            text = f"failed for good, {again}"
        case Act.FAIL, _:
            text = f"failed, {again}, will be tried again"
        case Act.EXPIRE, to:
            text = f"taken from its dead worker, {again}, {_EXPIRED.get(to, 'queued again')}"
        case Act.MOVE, to:
            there = f"from {event.moved_from}" if to else f"to {event.moved_to}"
            text = f"moved {safe(there)}"
        case act, State.SCHEDULED if act in _LATER:
            text = _LATER[act]
        case _:
            text = _PAST_TENSE.get(event.act, event.act.value)
    return f"{text}{by}{note}"


_EXPIRED: dict[State | None, str] = {
    State.FAILED: "its last: failed for good",
    State.CANCELLED: "and cancelled, as was asked",
}

_LATER = {Act.ENQUEUE: "scheduled", Act.REDRIVE: "redriven, runs later"}

_PAST_TENSE = {
    Act.ENQUEUE: "enqueued",
    Act.SNOOZE: "snoozed, runs later",
    Act.RELEASE: "released, queued again",
    Act.EXTEND: "lease extended",
    Act.PROGRESS: "made progress",
    Act.PROMOTE: "due, queued",
    Act.CANCEL: "cancelled",
    Act.REQUEST_CANCEL: "asked to stop",
    Act.REDRIVE: "redriven, queued again",
    Act.EDIT: "edited",
    Act.PRUNE: "pruned",
    Act.PURGE: "purged",
    Act.PAUSE: "paused",
    Act.RESUME: "resumed",
    Act.CONFIGURE: "settings changed",
    Act.DROP: "queue dropped",
}


def event_line(event: Event) -> Text:
    """One event on one line."""
    line = Text()
    line.append(f"{time_of_day(event.at)}  ", "dim")
    line.append(f"{safe(event.queue.name)}", "bold")
    if event.id:
        line.append(f"  {safe(event.kind)} {safe(event.id)}")
    line.append("  ")
    line.append(event_text(event), STATE_STYLES.get(event.to, ""))
    return line
