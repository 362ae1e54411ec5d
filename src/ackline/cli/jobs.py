"""`ackline list` and `export`: the jobs of a queue."""

from __future__ import annotations

import json
import sys
from typing import Any

import click
import msgspec
from rich.text import Text

from ackline.cli.app import command
from ackline.cli.exits import UsageMistake
from ackline.cli.options import kind_option, queue_argument, state_option
from ackline.cli.session import Session
from ackline.cli.tables import new_table
from ackline.cli.words import STYLES, plain, shorten, span
from ackline.job import Record, State
from ackline.queue import JobPage
from ackline.queue.copying import each_job
from ackline.queue.documents import job_document, payload_of
from ackline.queue.export import line_of
from ackline.stores.base import Filter

ROOM = [("", 24), ("kind", 8), ("id", 36), ("", 1), ("id", 12)]
"""How columns shrink in a narrow terminal: ids are there to be copied, ours have 36 characters."""


@command("list")
@queue_argument
@state_option
@kind_option
@click.option("--text", help="Only with this text in the payload.")
@click.option(
    "--limit",
    type=click.IntRange(min=1, max=10000),
    default=50,
    metavar="N",
    help="How many at most.",
)
@click.option("--cursor", help="Read on where a page ended.")
@click.option("--newest", is_flag=True, help="Of each state the newest first: what ended last.")
def list_jobs(
    session: Session,
    queue: str,
    state: tuple[State, ...],
    kind: tuple[str, ...],
    text: str | None,
    limit: int,
    cursor: str | None,
    newest: bool,
) -> None:
    """The jobs of a queue, by state, in the order of their line."""
    found = session.known_queue(queue)
    try:
        page = found.jobs(
            states=state or None,
            kinds=kind or None,
            text=text,
            limit=limit,
            cursor=cursor,
            newest_first=newest,
        )
    except (msgspec.MsgspecError, ValueError) as error:
        if cursor is None:
            raise
        raise UsageMistake(f"{cursor!r} is not a cursor of a page of jobs") from error
    if session.json:
        jobs = [job_document(job.record, queue) for job in page.jobs]
        session.document({"jobs": jobs, "cursor": page.cursor})
    elif not page.jobs:
        session.say(f"No such job in {plain(queue)}.")
    else:
        _show_page(session, page, newest)


def _show_page(session: Session, page: JobPage[Any], newest: bool) -> None:
    now = session.queues.store.now()
    columns = ("id", "state", "kind", "pri", "tries", "age", "")
    table = new_table(*columns, spare=ROOM, fold=["id"])
    for column in table.columns[3:6]:
        column.justify = "right"
    for job in page.jobs:
        record = job.record
        table.add_row(
            plain(record.id),
            Text(record.state, STYLES[record.state]),
            plain(record.kind),
            str(record.priority),
            str(record.attempts),
            span(now - record.created_at),
            Text(_remark(record, now), "dim"),
        )
    session.say(table)
    if page.cursor is not None:
        order = " --newest" if newest else ""
        session.notice(f"there are more:{order} --cursor '{page.cursor}'")


def _remark(record: Record, now: float) -> str:
    failure = record.failure
    match record.state:
        case State.FAILED if failure is not None:
            return shorten(plain(f"{failure.type}: {failure.message}"), 120)
        case State.FAILING if failure is not None and record.run_at is not None:
            return f"again in {span(record.run_at - now)}, after {plain(failure.message)}"
        case State.SCHEDULED if record.run_at is not None:
            return f"runs in {span(record.run_at - now)}"
        case State.PROCESSING if record.deadline is not None:
            left = record.deadline - now
            return f"leased for {span(left)}" if left > 0 else f"OVERDUE by {span(-left)}"
        case _:
            value = msgspec.json.decode(payload_of(record))
            return shorten(plain(json.dumps(value, ensure_ascii=False)), 120)


@command("export")
@queue_argument
@state_option
@kind_option
def export(session: Session, queue: str, state: tuple[State, ...], kind: tuple[str, ...]) -> None:
    """Write jobs as JSON lines: all, or of some states or kinds.

    Each line has what it takes to enqueue the job again, and what became of it. Enqueued again,
    jobs that had finished run once more: choose with --state.

    ackline export email --state failed > failed.jsonl
    ackline enqueue email --from failed.jsonl --full
    """
    found = session.known_queue(queue)
    which = Filter(states=frozenset(state or State), kinds=frozenset(kind) or None)
    for piece in each_job(found.store, found.key, which):
        for record in piece:
            sys.stdout.write(line_of(record, queue).decode())
    sys.stdout.flush()
