"""`ackline show`: everything about one job."""

from __future__ import annotations

from typing import Any

import click
import msgspec
from rich.text import Text

from ackline.cli.app import command
from ackline.cli.options.common import id_argument, queue_argument
from ackline.cli.output.events import STATE_STYLES, event_text
from ackline.cli.output.tables import new_table
from ackline.cli.output.text import (
    duration,
    pretty_json,
    safe,
    safe_lines,
    time_of_day,
    timestamp,
)
from ackline.cli.session import Session
from ackline.core.errors import JobNotFound
from ackline.core.events import Event
from ackline.core.job import Failure, Record, State
from ackline.journal_views.timeline import TIME_LIMIT, timeline
from ackline.queue import Queue
from ackline.queue.transfer.documents import event_document, job_document


@command("show")
@queue_argument
@id_argument
@click.option("--full", is_flag=True, help="Do not shorten long values.")
def show(session: Session, queue: str, id: str, full: bool) -> None:
    """Show everything about one job: timeline, failures, payload, result."""
    found = session.existing_queue(queue)
    job = found.status(id)
    if job is None:
        raise JobNotFound(queue, id)
    events, complete = timeline(found.store, found.key, job.record)
    document = job_document(job.record, queue)
    if session.json:
        document.timeline = [event_document(event) for event in events]
        document.timeline_complete = complete
        session.print_json(document)
        return
    limit = None if full else 2000
    _show_fields(session, found, job.record)
    _show_timeline(session, events, complete)
    _show_failures(session, job.record, full)
    _show_value(session, "payload", document.payload, limit)
    if job.record.progress is not None:
        _show_value(session, "progress", document.progress, limit)
    if job.record.state is State.COMPLETED:
        _show_value(session, "result", document.result, limit)


def _show_fields(session: Session, queue: Queue[Any, Any], record: Record) -> None:
    now = session.queues.store.now()
    title = Text.assemble(
        (safe(queue.name), "bold"), "  ", safe(record.kind), "  ", (safe(record.id), "bold")
    )
    session.print(title.append("  ").append(record.state, STATE_STYLES[record.state]))
    policy = queue.policies.of(record)
    fields = new_table("name", "value", shrinkable=[("value", 24)], fold=["value"])
    fields.show_header = False
    fields.columns[0].style = "dim"
    rows = {
        "attempts": f"{record.attempts} of {policy.max_attempts}",
        "priority": str(record.priority),
        "created": timestamp(record.created_at, now),
        "due": timestamp(record.run_at, now) if not record.state.terminal else "",
        "started": timestamp(record.started_at, now),
        "lease": _lease(record, now),
        "finished": timestamp(record.finished_at, now),
        "kept until": timestamp(record.expires_at, now),
        "group": safe(record.options.group or ""),
        "tags": ", ".join(map(safe, record.options.tags)),
        "headers": ", ".join(f"{safe(k)}={safe(v)}" for k, v in record.options.headers.items()),
        "cancel": "requested: the handler was asked to stop" if record.cancel_requested else "",
    }
    for name, value in rows.items():
        if value:
            fields.add_row(name, value)
    session.print(fields)


def _lease(record: Record, now: float) -> str:
    if record.state is not State.PROCESSING or record.deadline is None:
        return ""
    left = record.deadline - now
    until = f"{duration(left)} left" if left > 0 else f"overdue by {duration(-left)}"
    return f"{until}, worker {safe(record.worker)}, token {record.token}"


def _show_timeline(session: Session, events: list[Event], complete: bool) -> None:
    session.print("\ntimeline", "dim")
    table = new_table("at", "after", "event", shrinkable=[("event", 24)], fold=["event"])
    table.show_header = False
    table.columns[1].justify = "right"
    before: float | None = None
    for event in events:
        step = "" if before is None else f"+{duration(event.at - before)}"
        table.add_row(
            time_of_day(event.at), step, Text(event_text(event), STATE_STYLES.get(event.to, ""))
        )
        before = event.at
    session.print(table if events else "The journal no longer has its events.")
    if not complete:
        session.notice(f"incomplete: the search of the journal was stopped after {TIME_LIMIT:g} s")


def _show_failures(session: Session, record: Record, full: bool) -> None:
    failures = [failure for failure in record.history if failure.type]
    shown = failures if full else failures[-1:]
    if not shown:
        return
    more = f" (last of {len(failures)}, --full shows all)" if shown != failures else ""
    session.print(f"\nfailures{more}", "dim")
    for failure in shown:
        _show_failure(session, failure, full)


def _show_failure(session: Session, failure: Failure, full: bool) -> None:
    session.print(
        Text.assemble(
            (f"attempt {failure.attempt}  ", "dim"),
            (safe(f"{failure.type}: {failure.message}"), "red"),
            (f"  after {duration(failure.at - failure.started_at)}", "dim"),
        )
    )
    lines = safe_lines(failure.traceback).splitlines()
    if not full and len(lines) > 20:
        lines = [f"… {len(lines) - 20} more lines, --full shows them", *lines[-20:]]
    if lines:
        session.print("\n".join(lines), "dim")


def _show_value(session: Session, name: str, value: msgspec.Raw, limit: int | None) -> None:
    session.print(f"\n{name}", "dim")
    session.print(safe_lines(pretty_json(msgspec.json.decode(value), limit)))
