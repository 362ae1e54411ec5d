"""`ackline enqueue`: one job, or a file of them."""

from __future__ import annotations

import datetime
from typing import Any

import click
import msgspec

from ackline.cli.app import command
from ackline.cli.commands.import_lines import FileImport
from ackline.cli.exits import Refusal, UsageError
from ackline.cli.options import values
from ackline.cli.options.common import priority_option
from ackline.cli.output.text import pluralize, pretty_json, safe
from ackline.cli.session import Session
from ackline.core.errors import AcklineError
from ackline.core.retry import Backoff
from ackline.queue import Completed, Duplicate, Enqueued, Queue, Queued

Seconds = float | None


@command("enqueue", creates_store=True)
@click.argument("queue", help="The queue; it comes into being with a first job.")
@click.argument(
    "payload", required=False, help="The payload as JSON; - reads JSON lines from stdin."
)
@click.option("--id", help="Its id; the same id is the same job.")
@click.option("--kind", help="Which handler runs it.")
@priority_option
@click.option("--delay", type=values.seconds, metavar="SPAN", help="Run it later: 30, 5m, 2h.")
@click.option("--run-at", type=values.moment, metavar="TIME", help="Run it at: 2030-01-31T08:00.")
@click.option("--max-attempts", type=int, metavar="N", help="Deliveries before the DLQ.")
@click.option(
    "--backoff",
    type=values.backoff,
    metavar="BACKOFF",
    help="Waits between attempts: 1,5,30 or exponential:1:2:600.",
)
@click.option("--lease", type=values.seconds, metavar="SPAN", help="How long a delivery is held.")
@click.option(
    "--timeout", type=values.seconds, metavar="SPAN", help="How long its handler may take."
)
@click.option(
    "--result-ttl", type=values.seconds, metavar="SPAN", help="How long its result is kept."
)
@click.option("--callback-url", metavar="URL", help="What a service calls when the job has ended.")
@click.option("--group", help="Run one job of this group at a time.")
@click.option("--header", multiple=True, metavar="NAME=VALUE", help="A note beside the payload.")
@click.option(
    "--wait", type=values.seconds, metavar="SPAN", help="Wait so long for the result, and print it."
)
@click.option("--from", "source", metavar="FILE", help="JSON lines, one payload each; - is stdin.")
@click.option(
    "--full", is_flag=True, help="Each line is a whole job: {id, kind, payload, priority, …}."
)
@click.option("--keep-going", is_flag=True, help="Skip bad lines instead of stopping.")
def enqueue(
    session: Session,
    queue: str,
    payload: str | None,
    id: str | None,
    kind: str | None,
    priority: int | None,
    delay: Seconds,
    run_at: datetime.datetime | None,
    max_attempts: int | None,
    backoff: Backoff | None,
    lease: Seconds,
    timeout: Seconds,
    result_ttl: Seconds,
    callback_url: str | None,
    group: str | None,
    header: tuple[str, ...],
    wait: Seconds,
    source: str | None,
    full: bool,
    keep_going: bool,
) -> None:
    """Store a job, or a file of jobs.

    When this returns, they are as safe as the store makes them.

    ackline enqueue email '{"to": "ann@example.com"}' --id email-1
    """
    given = {
        "id": id,
        "kind": kind,
        "priority": priority,
        "delay": delay,
        "run_at": run_at,
        "max_attempts": max_attempts,
        "backoff": backoff,
        "lease": lease,
        "timeout": timeout,
        "result_ttl": result_ttl,
        "callback_url": callback_url,
        "group": group,
        "headers": values.headers(header) if header else None,
    }
    options = {name: value for name, value in given.items() if value is not None}
    if payload == "-" and source is None:
        payload, source = None, "-"
    if source is not None:
        _require_bulk(payload, id, wait)
        _enqueue_lines(session, queue, FileImport(source, full, keep_going, options))
        return
    if payload is None:
        raise UsageError(
            "what should be enqueued? Give a payload as JSON, such as "
            f'ackline enqueue {safe(queue)} \'{{"to": "ann"}}\', or JSON lines by --from FILE'
        )
    if full or keep_going:
        raise UsageError("--full and --keep-going are for JSON lines: --from FILE")
    _enqueue_one(session, session.queue(queue), values.payload(payload), options, wait)


def _require_bulk(payload: str | None, id: str | None, wait: float | None) -> None:
    if payload is not None:
        raise UsageError("a payload or --from FILE, not both")
    if id is not None:
        raise UsageError("one id cannot serve many jobs: use --full, and an id in each line")
    if wait is not None:
        raise UsageError("--wait is for one job")


# --- one job ---


def _enqueue_one(
    session: Session,
    queue: Queue[Any, Any],
    payload: Any,
    options: dict[str, Any],
    wait: float | None,
) -> None:
    answer = queue.enqueue(payload, **options)
    if wait is None:
        _print_answer(session, queue, answer)
        return
    if not session.json:
        session.notice(f"{answer.state} {safe(answer.id)}, waiting up to {wait:g} s")
    result = (
        answer.result if isinstance(answer, Completed) else queue.result(answer.id, timeout=wait)
    )
    if session.json:
        session.print_json({"id": answer.id, "state": "completed", "result": result})
    else:
        session.print(pretty_json(msgspec.to_builtins(result), limit=None))


def _print_answer(session: Session, queue: Queue[Any, Any], answer: Enqueued) -> None:
    if session.json:
        word = type(answer).__name__.lower()
        document = {"answer": word, "queue": queue.name, "id": answer.id, "state": answer.state}
        result = {"result": answer.result} if isinstance(answer, Completed) else {}
        session.print_json({**document, **result})
        return
    match answer:
        case Queued(id=id, state=state):
            session.print_line(f"{state} {safe(id)}")
        case Duplicate(id=id, state=state):
            session.print_line(f"duplicate: {safe(id)} is {state} already, nothing was stored")
        case Completed(id=id, result=result):
            session.print_line(f"completed already: {safe(id)}, its result is")
            session.print(pretty_json(result))


# --- a file of jobs ---


def _enqueue_lines(session: Session, queue_name: str, job_file: FileImport) -> None:
    queue = session.queue(queue_name)
    try:
        counts = job_file.enqueue(session, queue)
    except KeyboardInterrupt:
        session.notice(f"interrupted; {job_file.counts.so_far()}", "yellow")
        raise
    except AcklineError:
        session.notice(job_file.counts.so_far(), "yellow")
        raise
    if session.json:
        session.print_json({"queue": queue.name, **msgspec.to_builtins(counts)})
    else:
        session.print_line(
            f"{pluralize(counts.enqueued, 'job')} enqueued, "
            f"{pluralize(counts.duplicates, 'duplicate')}, "
            f"{counts.completed:,} completed before, {counts.rejected:,} rejected"
        )
    if counts.stopped:
        raise Refusal(f"{counts.stopped}\n{counts.so_far()}; --keep-going skips bad lines.")
    if counts.rejected:
        raise Refusal(f"{pluralize(counts.rejected, 'bad line')} in {job_file.name}, see above.")
