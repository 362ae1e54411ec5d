"""Jobs from JSON lines, streamed: never more than one chunk in memory."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import IO, Any

import click
import msgspec
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from ackline.cli import values
from ackline.cli.exits import UsageMistake
from ackline.cli.session import Session
from ackline.cli.words import count, plain
from ackline.errors import InvalidJob
from ackline.job import Draft, State
from ackline.queue import EnqueueOptions, Queue
from ackline.queue.lines import PAST, draft_of
from ackline.retry import Backoff, backoff_from

KNOWN = ("payload", *EnqueueOptions.__annotations__, "codec")
"""The fields of a line; those of `PAST`, which an export adds, are ignored."""

_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class BadLine(Exception):
    """A line that is not a job."""


def draft_of_line(queue: Queue[Any, Any], line: bytes, options: dict[str, Any]) -> Draft:
    """The job of a line; the options of the command fill in what the line leaves out."""
    raw = _fields(line)
    payload = bytes(raw.pop("payload"))
    fields = {name: msgspec.json.decode(value) for name, value in raw.items()}
    given = {name: value for name, value in fields.items() if value is not None}
    codec = given.pop("codec", None)
    try:
        return draft_of(queue, payload, codec, {**options, **_converted(given)})  # type: ignore[typeddict-item]
    except (InvalidJob, TypeError, ValueError, click.BadParameter) as error:
        raise BadLine(str(error)) from None


def _fields(line: bytes) -> dict[str, msgspec.Raw]:
    try:
        fields = _decode(line)
    except msgspec.ValidationError:
        shown = values.shown(line.decode(errors="replace").strip())
        raise BadLine(f"--full wants an object with a payload, this is {shown}") from None
    unknown = [name for name in fields if name not in KNOWN and name not in PAST]
    if unknown:
        raise BadLine(f"unknown field {unknown[0]!r}; known are {', '.join(KNOWN)}")
    if "payload" not in fields:
        raise BadLine('no payload; a job without one says so: "payload": null')
    return {name: value for name, value in fields.items() if name not in PAST}


def _converted(fields: dict[str, Any]) -> dict[str, Any]:
    """Read times and backoffs that are written as text."""
    if isinstance(fields.get("run_at"), str):
        fields["run_at"] = values.moment(fields["run_at"])
    match fields.get("backoff"):
        case None:
            pass
        case str(text):
            fields["backoff"] = values.backoff(text)
        case dict(rule):
            fields["backoff"] = msgspec.convert(rule, Backoff)
        case plain:
            fields["backoff"] = backoff_from(plain)
    return fields


CHUNK = 1000
"""Jobs per round trip."""


class Counts(msgspec.Struct):
    """What became of the lines so far."""

    lines: int = 0
    queued: int = 0
    duplicates: int = 0
    completed: int = 0
    rejected: int = 0
    stopped: str = ""
    """The bad line that ended it, if one did."""

    def so_far(self) -> str:
        """How much is stored, in words."""
        return f"{count(self.queued, 'job')} of {count(self.lines, 'line')} enqueued"


class Import:
    """A file of jobs, and what to do with it."""

    def __init__(self, source: str, full: bool, keep_going: bool, options: dict[str, Any]) -> None:
        self.source = source
        self.full = full
        self.keep_going = keep_going
        self.options = options
        self.counts = Counts()
        self.name = "stdin" if source == "-" else plain(source)


def read_lines(session: Session, queue: Queue[Any, Any], job_file: Import) -> Counts:
    """Enqueue every line; stops at the first bad line unless the import keeps going."""
    counts = job_file.counts
    with _open(job_file.source) as lines, _progress(session, lines) as advance:
        chunk: list[Draft] = []
        for line in lines:
            counts.lines += 1
            advance(len(line))
            try:
                if line.strip():
                    chunk.append(_draft(queue, line, job_file))
            except BadLine as bad:
                counts.rejected += 1
                message = f"{job_file.name} line {counts.lines}: {bad}"
                if not job_file.keep_going:
                    counts.stopped = message
                    break
                session.notice(message, "red")
            if len(chunk) == CHUNK:
                _store(queue, chunk, counts)
                chunk = []
        _store(queue, chunk, counts)
    return counts


def _store(queue: Queue[Any, Any], chunk: list[Draft], counts: Counts) -> None:
    if not chunk:
        return
    for receipt in queue.put(chunk):
        if receipt.accepted:
            counts.queued += 1
        elif receipt.state is State.COMPLETED:
            counts.completed += 1
        else:
            counts.duplicates += 1


def _draft(queue: Queue[Any, Any], line: bytes, job_file: Import) -> Draft:
    try:
        value = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError) as error:
        text = values.shown(line.decode(errors="replace").strip())
        raise BadLine(f"not JSON ({error}): {text}") from None
    if job_file.full:
        return draft_of_line(queue, line, job_file.options)
    try:
        return queue.drafter.draft(value, job_file.options)  # type: ignore[arg-type]
    except (InvalidJob, TypeError) as error:
        raise BadLine(str(error)) from None


@contextlib.contextmanager
def _open(source: str) -> Iterator[IO[bytes]]:
    if source == "-":
        if sys.stdin.isatty():
            sys.stderr.write("reading JSON lines, Ctrl-D ends them\n")
        yield sys.stdin.buffer
        return
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(open(source, "rb"))
        except OSError as error:
            raise UsageMistake(f"cannot read {source}: {error.strerror}") from None
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
