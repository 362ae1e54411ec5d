"""`ackline list` and `export`: the jobs of a queue."""

from __future__ import annotations

import json
import sys
from typing import Any

import click
import msgspec
from rich.text import Text

from ackline.cli.app import command
from ackline.cli.exits import UsageError
from ackline.cli.options.common import kind_option, queue_argument, state_option, tag_option
from ackline.cli.output.events import STATE_STYLES
from ackline.cli.output.tables import new_table
from ackline.cli.output.text import duration, safe, truncate
from ackline.cli.session import Session
from ackline.core.job import Record, State
from ackline.queue import JobPage
from ackline.queue.transfer.documents import job_document, payload_json
from ackline.queue.transfer.export import encode_line
from ackline.queue.transfer.snapshot import snapshot_jobs
from ackline.stores.contract import Filter

SHRINKABLE = [("", 24), ("kind", 8), ("id", 36), ("", 1), ("id", 12)]
"""How columns shrink in a narrow terminal. Generated ids have 36 characters and stay whole."""


@command("list")
@queue_argument
@state_option
@kind_option
@tag_option
@click.option("--text", help="Only jobs with this text in the payload.")
@click.option(
    "--limit",
    type=click.IntRange(min=1, max=10000),
    default=50,
    metavar="N",
    help="Maximum number of jobs.",
)
@click.option("--cursor", help="Continue after the previous page.")
@click.option("--newest", is_flag=True, help="Newest first within each state.")
def list_jobs(
    session: Session,
    queue: str,
    state: tuple[State, ...],
    kind: tuple[str, ...],
    tag: tuple[str, ...],
    text: str | None,
    limit: int,
    cursor: str | None,
    newest: bool,
) -> None:
    """List the jobs of a queue by state, in claim order."""
    found = session.existing_queue(queue)
    try:
        page = found.jobs(
            states=state or None,
            kinds=kind or None,
            tags=tag or None,
            text=text,
            limit=limit,
            cursor=cursor,
            newest_first=newest,
        )
    except (msgspec.MsgspecError, ValueError) as error:
        if cursor is None:
            raise
        raise UsageError(f"{cursor!r} is not a cursor of a page of jobs") from error
    if session.json:
        jobs = [job_document(job.record, queue) for job in page.jobs]
        session.print_json({"jobs": jobs, "cursor": page.cursor})
    elif not page.jobs:
        session.print(f"No matching jobs in {safe(queue)}.")
    else:
        _show_page(session, page, newest)


def _show_page(session: Session, page: JobPage[Any], newest: bool) -> None:
    now = session.queues.store.now()
    columns = ("id", "state", "kind", "pri", "attempts", "age", "")
    table = new_table(*columns, shrinkable=SHRINKABLE, fold=["id"])
    for column in table.columns[3:6]:
        column.justify = "right"
    for job in page.jobs:
        record = job.record
        table.add_row(
            safe(record.id),
            Text(record.state, STATE_STYLES[record.state]),
            safe(record.kind),
            str(record.priority),
            str(record.attempts),
            duration(now - record.created_at),
            Text(_detail(record, now), "dim"),
        )
    session.print(table)
    if page.cursor is not None:
        order = " --newest" if newest else ""
        session.notice(f"more jobs:{order} --cursor '{page.cursor}'")


def _detail(record: Record, now: float) -> str:
    failure = record.failure
    match record.state:
        case State.FAILED if failure is not None:
            return truncate(safe(f"{failure.type}: {failure.message}"), 120)
        case State.FAILING if failure is not None and record.run_at is not None:
            return f"due in {duration(record.run_at - now)}, after {safe(failure.message)}"
        case State.SCHEDULED if record.run_at is not None:
            return f"due in {duration(record.run_at - now)}"
        case State.PROCESSING if record.deadline is not None:
            left = record.deadline - now
            return (
                f"leased for {duration(left)}"
                if left > 0
                else f"lease overdue by {duration(-left)}"
            )
        case _:
            value = msgspec.json.decode(payload_json(record))
            return truncate(safe(json.dumps(value, ensure_ascii=False)), 120)


@command("export")
@queue_argument
@state_option
@kind_option
@tag_option
def export(
    session: Session,
    queue: str,
    state: tuple[State, ...],
    kind: tuple[str, ...],
    tag: tuple[str, ...],
) -> None:
    """Write jobs as JSON lines: all, or those of some states, kinds or tags.

    Each line has everything needed to enqueue the job again, and its outcome. Finished jobs that
    are enqueued again run again: select with --state.

    ackline export email --state failed > failed.jsonl
    ackline enqueue email --from failed.jsonl --full
    """
    found = session.existing_queue(queue)
    which = Filter(
        states=frozenset(state or State),
        kinds=frozenset(kind) or None,
        tags=frozenset(tag) or None,
    )
    for batch in snapshot_jobs(found.store, found.key, which):
        for record in batch:
            sys.stdout.write(encode_line(record, queue).decode())
    sys.stdout.flush()
