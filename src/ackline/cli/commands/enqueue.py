"""`ackline enqueue`: enqueue a job, or a file of JSON lines."""

from __future__ import annotations

import contextlib
import datetime
import sys
from collections.abc import Iterator
from typing import IO, Any

import click
import msgspec
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from ackline.cli.app import command
from ackline.cli.exits import CommandError, UsageError
from ackline.cli.options import values
from ackline.cli.options.common import priority_option
from ackline.cli.output.text import pluralize, pretty_json, safe
from ackline.cli.session import Session
from ackline.core.errors import AcklineError, InvalidJob
from ackline.core.job import Draft
from ackline.core.retry import Backoff, backoff_from
from ackline.queue import Completed, Duplicate, Enqueued, EnqueueOptions, Queue, Queued
from ackline.queue.transfer.import_jobs import Import, ImportCounts, line_decoder, line_to_draft

Seconds = float | None


@command("enqueue", creates_store=True)
@click.argument("queue", help="The queue; it is created with its first job.")
@click.argument(
    "payload", required=False, help="The payload, as JSON; - reads JSON lines from stdin."
)
@click.option(
    "--id", help="The job's id (default: generated). A job with the same id is not enqueued twice."
)
@click.option("--kind", help="The kind of job: which handler runs it.")
@priority_option
@click.option("--delay", type=values.seconds, metavar="SPAN", help="Run it later: 30, 5m, 2h.")
@click.option(
    "--run-at", type=values.moment, metavar="TIME", help="Run it at this time: 2030-01-31T08:00."
)
@click.option("--max-attempts", type=int, metavar="N", help="Attempts before it moves to the DLQ.")
@click.option(
    "--backoff",
    type=values.backoff,
    metavar="BACKOFF",
    help="Delays between attempts: 1,5,30 or exponential:1:2:600.",
)
@click.option(
    "--lease",
    type=values.seconds,
    metavar="SPAN",
    help="How long a worker has the job before it is recovered, unless extended.",
)
@click.option(
    "--timeout", type=values.seconds, metavar="SPAN", help="How long its handler may run."
)
@click.option(
    "--result-ttl", type=values.seconds, metavar="SPAN", help="How long its result is kept."
)
@click.option(
    "--callback-url", metavar="URL", help="URL that the service notifies when the job has finished."
)
@click.option("--group", help="Run only one job of this group at a time.")
@click.option("--tag", multiple=True, help="A tag, to find the job by. Can be repeated.")
@click.option(
    "--header", multiple=True, metavar="NAME=VALUE", help="A header of the job. Can be repeated."
)
@click.option(
    "--wait",
    type=values.seconds,
    metavar="SPAN",
    help="Wait up to this long for the result, and print it.",
)
@click.option(
    "--from", "source", metavar="FILE", help="Read JSON lines, each a payload; - is stdin."
)
@click.option("--full", is_flag=True, help="Each line is a job: {id, kind, payload, priority, …}.")
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
    tag: tuple[str, ...],
    header: tuple[str, ...],
    wait: Seconds,
    source: str | None,
    full: bool,
    keep_going: bool,
) -> None:
    """Enqueue a job, or a file of jobs.

    When the command returns, the jobs are stored as durably as the store allows.

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
        "tags": tag or None,
        "headers": values.headers(header) if header else None,
    }
    options = {name: value for name, value in given.items() if value is not None}
    if payload == "-" and source is None:
        payload, source = None, "-"
    if source is not None:
        _require_bulk(payload, id, wait)
        _enqueue_lines(session, queue, JobFile(source, full, keep_going, options))
        return
    if payload is None:
        raise UsageError(
            "no payload: give one as JSON, such as "
            f'ackline enqueue {safe(queue)} \'{{"to": "ann"}}\', or JSON lines with --from FILE'
        )
    if full or keep_going:
        raise UsageError("--full and --keep-going need JSON lines: --from FILE")
    _enqueue_one(session, session.queue(queue), values.payload(payload), options, wait)


def _require_bulk(payload: str | None, id: str | None, wait: float | None) -> None:
    if payload is not None:
        raise UsageError("give a payload or --from FILE, not both")
    if id is not None:
        raise UsageError("--id cannot be used for many jobs: use --full, and an id in each line")
    if wait is not None:
        raise UsageError("--wait needs a single job")


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
        name = type(answer).__name__.lower()
        document = {"answer": name, "queue": queue.name, "id": answer.id, "state": answer.state}
        result = {"result": answer.result} if isinstance(answer, Completed) else {}
        session.print_json({**document, **result})
        return
    match answer:
        case Queued(id=id, state=state):
            session.print_line(f"{state} {safe(id)}")
        case Duplicate(id=id, state=state):
            session.print_line(f"duplicate: {safe(id)} is already {state}, nothing was stored")
        case Completed(id=id, result=result):
            session.print_line(f"already completed: {safe(id)}, with this result:")
            session.print(pretty_json(result))


# --- a file of jobs ---


def _enqueue_lines(session: Session, queue_name: str, job_file: JobFile) -> None:
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
            f"{counts.completed:,} already completed, {counts.rejected:,} rejected"
        )
    if counts.stopped:
        raise CommandError(f"{counts.stopped}\n{counts.so_far()}; --keep-going skips bad lines.")
    if counts.rejected:
        raise CommandError(f"{pluralize(counts.rejected, 'bad line')} in {job_file.name}.")


LINE_OPTIONS = tuple(EnqueueOptions.__annotations__)


class BadLine(Exception):
    """A line that is not a job; the message says why."""


_Options = msgspec.defstruct("_Options", [(name, Any, None) for name in LINE_OPTIONS], kw_only=True)
"""Of any type: the draft builder checks them, with better messages."""

_decode = line_decoder(_Options).decode


class LineCounts(ImportCounts):
    """How many lines were enqueued so far, and how many were bad."""

    rejected: int = 0
    stopped: str = ""
    """The bad line at which it stopped, if it did."""

    def so_far(self) -> str:
        """The number of jobs enqueued so far, in words."""
        return f"{pluralize(self.enqueued, 'job')} of {pluralize(self.lines, 'line')} enqueued"


class JobFile:
    """A file of JSON lines, each of which becomes a job. One batch at a time is in memory."""

    def __init__(self, source: str, full: bool, keep_going: bool, options: dict[str, Any]) -> None:
        self.source = source
        self.full = full
        self.keep_going = keep_going
        self.options = options
        self.counts = LineCounts()
        self.name = "stdin" if source == "-" else safe(source)

    def enqueue(self, session: Session, queue: Queue[Any, Any]) -> LineCounts:
        """Enqueue every line; stop at the first bad one, unless `keep_going` is set."""
        counts = self.counts
        batch = Import(counts)
        with _open(self.source) as lines, _progress(session, lines) as advance:
            for line in lines:
                advance(len(line))
                try:
                    if text := batch.next_line(line):
                        batch.add(self._draft(queue, text))
                except BadLine as bad:
                    counts.rejected += 1
                    message = f"{self.name} line {counts.lines}: {bad}"
                    if not self.keep_going:
                        counts.stopped = message
                        break
                    session.notice(message, "red")
                if batch.full:
                    batch.count(queue.store_drafts(batch.take()))
            if rest := batch.take():
                batch.count(queue.store_drafts(rest))
        return counts

    def _draft(self, queue: Queue[Any, Any], line: bytes) -> Draft:
        try:
            if self.full:
                return _full_draft(queue, line, self.options)
            return queue.draft_builder.draft(msgspec.json.decode(line), self.options)  # type: ignore[arg-type]
        except msgspec.ValidationError as error:
            raise BadLine(
                f"{error}; --full expects an object with a payload and optionally "
                f"{', '.join(LINE_OPTIONS)}; got {_quoted(line)}"
            ) from None
        except (msgspec.DecodeError, RecursionError) as error:
            raise BadLine(f"not JSON ({error}): {_quoted(line)}") from None
        except (InvalidJob, TypeError, ValueError, click.BadParameter) as error:
            raise BadLine(str(error)) from None


def _full_draft(queue: Queue[Any, Any], text: bytes, options: dict[str, Any]) -> Draft:
    """The job of a line; the command's options are its defaults."""
    line = _decode(text)
    if not line.payload:
        raise BadLine('no payload; write "payload": null for a job without one')
    given = {name: value for name in LINE_OPTIONS if (value := getattr(line, name)) is not None}
    return line_to_draft(queue, line, {**options, **_parse_values(given)})  # type: ignore[typeddict-item]


def _parse_values(options: dict[str, Any]) -> dict[str, Any]:
    """Parse times and backoffs that are written as text."""
    if isinstance(options.get("run_at"), str):
        options["run_at"] = values.moment(options["run_at"])
    match options.get("backoff"):
        case None:
            pass
        case str(text):
            options["backoff"] = values.backoff(text)
        case dict(rule):
            try:
                options["backoff"] = msgspec.convert(rule, Backoff)
            except msgspec.ValidationError as error:
                raise BadLine(f"backoff: {error}") from None
        case plain:
            options["backoff"] = backoff_from(plain)
    return options


def _quoted(line: bytes) -> str:
    return values.quoted(line.decode(errors="replace"))


@contextlib.contextmanager
def _open(source: str) -> Iterator[IO[bytes]]:
    if source == "-":
        if sys.stdin.isatty():
            sys.stderr.write("reading JSON lines until Ctrl-D\n")
        yield sys.stdin.buffer
        return
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(open(source, "rb"))
        except OSError as error:
            raise UsageError(f"cannot read {source}: {error.strerror}") from None
        yield file


@contextlib.contextmanager
def _progress(session: Session, lines: IO[bytes]) -> Iterator[Any]:
    if not session.notices.is_terminal or (lines.seekable() is False and lines.isatty()):
        yield lambda _size: None
        return
    size: int | None = None
    if lines.seekable():
        size = lines.seek(0, 2)
        lines.seek(0)
    with Progress(
        TextColumn("enqueueing"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        console=session.notices,
        transient=True,
    ) as progress:
        task = progress.add_task("", total=size)
        yield lambda done: progress.advance(task, done)
