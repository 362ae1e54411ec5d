"""Events in words, and the colours of states."""

from __future__ import annotations

from collections.abc import Mapping

from rich.text import Text

from ackline.cli.output.text import safe, time_of_day
from ackline.core.events import Act, Event
from ackline.core.job import State

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

ACT_TEXTS: Mapping[Act, str] = {
    Act.ENQUEUE: "enqueued",
    Act.CLAIM: "claimed",
    Act.COMPLETE: "completed",
    Act.FAIL: "failed",
    Act.SNOOZE: "snoozed",
    Act.RELEASE: "released",
    Act.EXPIRE: "lease expired",
    Act.EXTEND: "lease extended",
    Act.PROGRESS: "progress reported",
    Act.PROMOTE: "promoted",
    Act.CANCEL: "cancelled",
    Act.REQUEST_CANCEL: "cancel requested",
    Act.REDRIVE: "redriven",
    Act.EDIT: "edited",
    Act.MOVE: "moved",
    Act.PRUNE: "pruned",
    Act.PURGE: "purged",
    Act.PAUSE: "paused",
    Act.RESUME: "resumed",
    Act.CONFIGURE: "settings changed",
    Act.DROP: "queue dropped",
}
"""What each act is called, in the dashboard too."""

_NEXT_STATE: Mapping[State | None, str] = {
    State.FAILED: "moved to the DLQ",
    State.FAILING: "retry scheduled",
    State.QUEUED: "queued again",
    State.CANCELLED: "cancelled as requested",
}
"""What follows a failure or an expired lease."""


def event_text(event: Event) -> str:
    """An event in words, without the job's name."""
    parts = [_act_text(event)]
    if event.act in (Act.CLAIM, Act.COMPLETE, Act.FAIL, Act.EXPIRE):
        parts.append(f"attempt {event.attempt}")
    if event.act is Act.CLAIM:
        parts.append(f"worker {safe(event.worker)}")
    if event.act in (Act.FAIL, Act.EXPIRE) and event.to in _NEXT_STATE:
        parts.append(_NEXT_STATE[event.to])
    by = f" by {safe(event.by)}" if event.by else ""
    note = f": {safe(event.note)}" if event.note else ""
    return f"{', '.join(parts)}{by}{note}"


def _act_text(event: Event) -> str:
    match event.act, event.to:
        case Act.MOVE, State():
            return f"moved from {safe(event.moved_from or '')}"
        case Act.MOVE, None:
            return f"moved to {safe(event.moved_to or '')}"
        case Act.ENQUEUE, State.SCHEDULED:
            return "scheduled"
        case Act.REDRIVE, State.SCHEDULED:
            return "redriven, scheduled"
        case Act.REDRIVE, _:
            return "redriven, queued again"
        case Act.RELEASE, _:
            return "released, queued again"
        case act, _:
            return ACT_TEXTS.get(act, act.value)


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
