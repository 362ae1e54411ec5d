"""`ackline show`: everything about one job."""

from __future__ import annotations

from typing import Any

import click
import msgspec
from rich.text import Text

from ackline.cli.app import command
from ackline.cli.options import queue_argument
from ackline.cli.session import Session
from ackline.cli.tables import new_table
from ackline.cli.words import STYLES, clock, happened, moment, plain, plain_lines, pretty, span
from ackline.errors import JobNotFound
from ackline.events import Event
from ackline.job import Failure, Record, State
from ackline.journal_views.timeline import TIME_LIMIT, timeline
from ackline.queue import Queue
from ackline.queue.documents import event_document, job_document


@command("show")
@queue_argument
@click.argument("id", help="The job's id.")
@click.option("--full", is_flag=True, help="Cut nothing off.")
def show(session: Session, queue: str, id: str, full: bool) -> None:
    """Everything about one job: timeline, failures, payload, result."""
    found = session.known_queue(queue)
    job = found.status(id)
    if job is None:
        raise JobNotFound(queue, id)
    events, complete = timeline(found.store, found.key, job.record)
    document = job_document(job.record, queue)
    if session.json:
        document.timeline = [event_document(event) for event in events]
        document.timeline_complete = complete
        session.document(document)
        return
    limit = None if full else 2000
    _show_facts(session, found, job.record)
    _show_timeline(session, events, complete)
    _show_failures(session, job.record, full)
    _show_value(session, "payload", document.payload, limit)
    if job.record.progress is not None:
        _show_value(session, "progress", document.progress, limit)
    if job.record.state is State.COMPLETED:
        _show_value(session, "result", document.result, limit)


def _show_facts(session: Session, queue: Queue[Any, Any], record: Record) -> None:
    now = session.queues.store.now()
    title = Text.assemble(
        (plain(queue.name), "bold"), "  ", plain(record.kind), "  ", (plain(record.id), "bold")
    )
    session.say(title.append("  ").append(record.state, STYLES[record.state]))
    policy = queue.policies.of(record)
    facts = new_table("name", "value", spare=[("value", 24)], fold=["value"])
    facts.show_header = False
    facts.columns[0].style = "dim"
    rows = {
        "attempts": f"{record.attempts} of {policy.max_attempts}",
        "priority": str(record.priority),
        "created": moment(record.created_at, now),
        "runs": moment(record.run_at, now) if not record.state.terminal else "",
        "started": moment(record.started_at, now),
        "lease": _lease(record, now),
        "finished": moment(record.finished_at, now),
        "kept until": moment(record.expires_at, now),
        "group": plain(record.options.group or ""),
        "headers": ", ".join(f"{plain(k)}={plain(v)}" for k, v in record.options.headers.items()),
        "stop": "its handler was asked to stop" if record.cancel_requested else "",
    }
    for name, value in rows.items():
        if value:
            facts.add_row(name, value)
    session.say(facts)


def _lease(record: Record, now: float) -> str:
    if record.state is not State.PROCESSING or record.deadline is None:
        return ""
    left = record.deadline - now
    until = f"{span(left)} left" if left > 0 else f"OVERDUE by {span(-left)}"
    return f"{until}, worker {plain(record.worker)}, token {record.token}"


def _show_timeline(session: Session, events: list[Event], complete: bool) -> None:
    session.say("\ntimeline", "dim")
    table = new_table("at", "step", "what", spare=[("what", 24)], fold=["what"])
    table.show_header = False
    table.columns[1].justify = "right"
    before: float | None = None
    for event in events:
        step = "" if before is None else f"+{span(event.at - before)}"
        table.add_row(clock(event.at), step, Text(happened(event), STYLES.get(event.to, "")))
        before = event.at
    session.say(table if events else "its events have left the journal")
    if not complete:
        session.notice(f"the journal is long: only its first {TIME_LIMIT:g} s were looked through")


def _show_failures(session: Session, record: Record, full: bool) -> None:
    failures = [failure for failure in record.history if failure.type]
    shown = failures if full else failures[-1:]
    if not shown:
        return
    more = f" (the last of {len(failures)}, --full shows all)" if shown != failures else ""
    session.say(f"\nfailures{more}", "dim")
    for failure in shown:
        _show_failure(session, failure, full)


def _show_failure(session: Session, failure: Failure, full: bool) -> None:
    session.say(
        Text.assemble(
            (f"attempt {failure.attempt}  ", "dim"),
            (plain(f"{failure.type}: {failure.message}"), "red"),
            (f"  after {span(failure.at - failure.started_at)}", "dim"),
        )
    )
    lines = plain_lines(failure.traceback).splitlines()
    if not full and len(lines) > 20:
        lines = [f"… {len(lines) - 20} lines, --full shows them", *lines[-20:]]
    if lines:
        session.say("\n".join(lines), "dim")


def _show_value(session: Session, name: str, value: msgspec.Raw, limit: int | None) -> None:
    session.say(f"\n{name}", "dim")
    session.say(plain_lines(pretty(msgspec.json.decode(value), limit)))
