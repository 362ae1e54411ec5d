"""Jobs from JSON lines, streamed: never more than one chunk in memory."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import IO, Any

import click
import msgspec
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from ackline.cli.exits import UsageError
from ackline.cli.options import values
from ackline.cli.output.text import pluralize, safe
from ackline.cli.session import Session
from ackline.core.errors import InvalidJob
from ackline.core.job import Draft
from ackline.core.retry import Backoff, backoff_from
from ackline.queue import EnqueueOptions, Queue
from ackline.queue.transfer.import_jobs import Import, ImportCounts, line_decoder, line_to_draft

OPTIONS = tuple(EnqueueOptions.__annotations__)


class BadLine(Exception):
    """A line that is not a job."""


_Options = msgspec.defstruct("_Options", [(name, Any, None) for name in OPTIONS], kw_only=True)
"""The drafter checks the options, and says what is wrong with them."""

_decode = line_decoder(_Options).decode


class LineCounts(ImportCounts):
    """What became of the lines so far, also of the bad ones."""

    rejected: int = 0
    stopped: str = ""
    """The bad line that ended it, if one did."""

    def so_far(self) -> str:
        """How much is stored, in words."""
        return f"{pluralize(self.enqueued, 'job')} of {pluralize(self.lines, 'line')} enqueued"


class FileImport:
    """A file of jobs, and what to do with it."""

    def __init__(self, source: str, full: bool, keep_going: bool, options: dict[str, Any]) -> None:
        self.source = source
        self.full = full
        self.keep_going = keep_going
        self.options = options
        self.counts = LineCounts()
        self.name = "stdin" if source == "-" else safe(source)

    def enqueue(self, session: Session, queue: Queue[Any, Any]) -> LineCounts:
        """Enqueue every line; stops at the first bad line unless the import keeps going."""
        counts = self.counts
        step = Import(counts)
        with _open(self.source) as lines, _progress(session, lines) as advance:
            for line in lines:
                advance(len(line))
                try:
                    if text := step.next_line(line):
                        step.add(self._draft(queue, text))
                except BadLine as bad:
                    counts.rejected += 1
                    message = f"{self.name} line {counts.lines}: {bad}"
                    if not self.keep_going:
                        counts.stopped = message
                        break
                    session.notice(message, "red")
                if step.full:
                    step.count(queue.store_drafts(step.take()))
            if rest := step.take():
                step.count(queue.store_drafts(rest))
        return counts

    def _draft(self, queue: Queue[Any, Any], line: bytes) -> Draft:
        try:
            if self.full:
                return _full_draft(queue, line, self.options)
            return queue.draft_builder.draft(msgspec.json.decode(line), self.options)  # type: ignore[arg-type]
        except msgspec.ValidationError as error:
            raise BadLine(
                f"{error}; --full wants an object with a payload, and if need be "
                f"{', '.join(OPTIONS)}; this is {_shown(line)}"
            ) from None
        except (msgspec.DecodeError, RecursionError) as error:
            raise BadLine(f"not JSON ({error}): {_shown(line)}") from None
        except (InvalidJob, TypeError, ValueError, click.BadParameter) as error:
            raise BadLine(str(error)) from None


def _full_draft(queue: Queue[Any, Any], text: bytes, options: dict[str, Any]) -> Draft:
    """The job of a line; the options of the command fill in what the line leaves out."""
    line = _decode(text)
    if not line.payload:
        raise BadLine('no payload; a job without one says so: "payload": null')
    said = {name: value for name in OPTIONS if (value := getattr(line, name)) is not None}
    return line_to_draft(queue, line, {**options, **_parse_values(said)})  # type: ignore[typeddict-item]


def _parse_values(said: dict[str, Any]) -> dict[str, Any]:
    """Read times and backoffs that are written as text."""
    if isinstance(said.get("run_at"), str):
        said["run_at"] = values.moment(said["run_at"])
    match said.get("backoff"):
        case None:
            pass
        case str(text):
            said["backoff"] = values.backoff(text)
        case dict(rule):
            try:
                said["backoff"] = msgspec.convert(rule, Backoff)
            except msgspec.ValidationError as error:
                raise BadLine(f"backoff: {error}") from None
        case plain:
            said["backoff"] = backoff_from(plain)
    return said


def _shown(line: bytes) -> str:
    return values.quoted(line.decode(errors="replace"))


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
