"""Times, sizes, states and events in words."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from typing import Any

from rich.text import Text

from ackline.events import Act, Event
from ackline.job import State
from ackline.logs import on_one_line

STYLES: Mapping[State | None, str] = {
    State.SCHEDULED: "blue",
    State.QUEUED: "cyan",
    State.PROCESSING: "yellow",
    State.FAILING: "magenta",
    State.COMPLETED: "green",
    State.FAILED: "bold red",
    State.CANCELLED: "bright_black",
    None: "dim",
}


def plain(text: str) -> str:
    """A name or message on one line, its control characters made visible and harmless."""
    return on_one_line(text)


def plain_lines(text: str) -> str:
    """The same for a text of several lines."""
    return "\n".join(plain(line.replace("\t", "    ")) for line in text.splitlines())


def span(seconds: float) -> str:
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


def moment(at: float | None, now: float | None = None) -> str:
    """A moment by the local clock, with its distance from `now` if given."""
    if at is None:
        return ""
    text = datetime.datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    if now is None:
        return text
    return f"{text} (in {span(at - now)})" if at > now else f"{text} ({span(now - at)} ago)"


def clock(at: float) -> str:
    """The time of day to the millisecond."""
    return datetime.datetime.fromtimestamp(at).astimezone().strftime("%H:%M:%S.%f")[:-3]


def count(number: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun: 1 job, 2 jobs, 1,000 jobs."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def at_a_glance(number: float, decimals: int = 0) -> str:
    """A number in few places: 12.5, 999,999, 1.25M."""
    if number < 100:
        return f"{number:.{decimals}f}"
    if number < 999_999.5:
        return f"{number:,.0f}"
    return f"{number / 1e6:,.2f}M"


def shorten(text: str, length: int) -> str:
    """The beginning of a text that is too long for its place."""
    return text if len(text) <= length else text[: length - 1] + "…"


def pretty(value: Any, limit: int | None = 2000) -> str:
    """JSON to be read, cut with a note when it is long."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    if limit is None or len(text) <= limit:
        return text
    return f"{text[:limit]}\n… cut: {len(text):,} characters in all, --full shows them"


def happened(event: Event) -> str:
    """An event as a sentence without its subject."""
    note = f": {plain(event.note)}" if event.note else ""
    by = f" by {plain(event.by)}" if event.by else ""
    again = f"attempt {event.attempt}"
    match event.act, event.to:
        case Act.CLAIM, _:
            text = f"claimed, {again}, worker {plain(event.worker)}"
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
            text = f"moved {plain(there)}"
        case act, State.SCHEDULED if act in _LATER:
            text = _LATER[act]
        case _:
            text = _PAST.get(event.act, event.act.value)
    return f"{text}{by}{note}"


_EXPIRED: dict[State | None, str] = {
    State.FAILED: "its last: failed for good",
    State.CANCELLED: "and cancelled, as was asked",
}

_LATER = {Act.ENQUEUE: "scheduled", Act.REDRIVE: "redriven, runs later"}

_PAST = {
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
    line.append(f"{clock(event.at)}  ", "dim")
    line.append(f"{plain(event.queue.name)}", "bold")
    if event.id:
        line.append(f"  {plain(event.kind)} {plain(event.id)}")
    line.append("  ")
    line.append(happened(event), STYLES.get(event.to, ""))
    return line
