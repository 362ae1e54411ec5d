"""How the demo looks: a live table on a terminal, plain lines elsewhere; then the books."""

from __future__ import annotations

import sys
import time
from collections import Counter, deque
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from rich.console import Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ackline.cli.queues import count_cells, counts_table
from ackline.cli.session import Session
from ackline.cli.words import count, plain, span
from ackline.demo.books import Books, Crash
from ackline.events import Act, Event
from ackline.job import State
from ackline.queues import Queues

LINES = 12
"""Lines of the story that stay in view."""

SNAPSHOT = 5.0
"""Seconds between tables where there is no terminal."""

SHOWN_CRASHES = 6
"""How many crashes are listed: those that took longest to recover from."""

RATE_SPAN = 2.0
"""Seconds over which a rate is measured."""


class Stage:
    """Shows the store and the story while they go on."""

    def __init__(
        self, session: Session, queues: Queues, path: Path, seconds: float | None, url: str | None
    ) -> None:
        self._session = session
        self._queues = queues
        self._path = path
        self._seconds = seconds
        self._url = url
        self._room = max(4, min(LINES, session.console.height - 18))
        self._lines: deque[Text] = deque(maxlen=self._room)
        self._done: deque[tuple[float, str, int]] = deque()
        self._began = time.monotonic()
        self._elapsed = 0.0
        self._next_snapshot = SNAPSHOT
        self._live: Live | None = None

    def __enter__(self) -> Self:
        if self._session.json:
            return self
        info = self._queues.info()
        self._session.say(Text.assemble(("ackline demo", "bold"), f"  on {self._path}"))
        self._session.say(f"durability {info.durability}", "dim")
        self._session.line(self._where())
        sys.stdout.flush()
        if self._session.console.is_terminal:
            self._live = Live(self._draw(), console=self._session.console, auto_refresh=False)
            self._live.start()
        return self

    def _where(self) -> Text:
        if self._url is None:
            return Text("no dashboard: pip install 'ackline[service]'", "yellow")
        return Text.assemble("dashboard ", (self._url, "bold cyan"))

    def __exit__(self, kind: object, *_more: object) -> None:
        if self._live is not None:
            self._live.update(self._draw(), refresh=True)
            self._live.stop()
        elif not self._session.json and kind is None:
            self._session.say(self._table())

    def tell(self, happened: str) -> None:
        """Add a line to the story."""
        at = time.monotonic() - self._began
        line = Text.assemble((f"{at:5.1f} s  ", "dim"), plain(happened), overflow="ellipsis")
        line.no_wrap = True
        self._lines.append(line)
        if self._live is None and not self._session.json:
            self._session.line(line)
            sys.stdout.flush()

    def count(self, events: Sequence[Event]) -> None:
        """Count completions, for the rates."""
        done = Counter(event.queue.name for event in events if event.act is Act.COMPLETE)
        now = time.monotonic()
        self._done.extend((now, queue, number) for queue, number in done.items())

    def refresh(self, elapsed: float) -> None:
        """Show how things stand now."""
        self._elapsed = elapsed
        if self._live is not None:
            self._live.update(self._draw(), refresh=True)
        elif elapsed >= self._next_snapshot and not self._session.json:
            self._next_snapshot += SNAPSHOT
            self._session.say(self._table())

    def _draw(self) -> Group:
        story = [*self._lines, *[Text() for _ in range(self._room - len(self._lines))]]
        return Group(Text(), self._table(), Text(), *story, Text(), self._foot())

    def _foot(self) -> Table | Text:
        if self._seconds is None:
            return Text(
                f"{span(self._elapsed)}   Ctrl-C ends it, and tells what became of all jobs", "dim"
            )
        bar = ProgressBar(total=self._seconds, completed=min(self._elapsed, self._seconds))
        bar.width = 40
        foot = Table.grid(padding=(0, 2, 0, 0))
        foot.add_row(bar, Text(f"{self._elapsed:4.1f} of {self._seconds:g} s", "dim"))
        return foot

    def _table(self) -> Table:
        since = time.monotonic() - RATE_SPAN
        while self._done and self._done[0][0] < since:
            self._done.popleft()
        rates: Counter[str] = Counter()
        for _, queue, number in self._done:
            rates[queue] += number
        table = counts_table(self._session, "done/s")
        for info in self._queues.describe():
            name = info.key.name
            rate = rates[name] / RATE_SPAN
            table.add_row(Text(plain(name), "bold"), *count_cells(info), f"{rate:.1f}")
        return table


def show_books(session: Session, books: Books, known: int, path: Path, program: str) -> None:
    """The proof, and what to try next."""
    say = session.say
    verdict = (
        Text("Every job is accounted for.", "bold green")
        if books.balanced
        else Text("THE BOOKS DO NOT BALANCE.", "bold red")
    )
    say()
    say(verdict)
    say(_sum(books))
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    for name, words in _rows(books, known):
        table.add_row(name, words)
    say(table)
    say()
    say(f"Kept in {path}, the workers' log beside it. Look around:")
    queue, id = books.failed[0] if books.failed else ("acme/email", "news-1")
    state = " --state failed" if books.failed else ""
    for arguments in ("queues", f"list {queue}{state}", f"show {queue} {id}"):
        session.line(Text(f"  {program} {arguments} --store {path}", "cyan"))


def _sum(books: Books) -> Text:
    states = books.states
    return Text.assemble(
        ("  enqueued ", ""),
        (f"{books.enqueued:,}", "bold"),
        " = completed ",
        (f"{states[State.COMPLETED]:,}", "bold green"),
        " + DLQ ",
        (f"{states[State.FAILED]:,}", "bold red"),
        " + cancelled ",
        (f"{states[State.CANCELLED]:,}", "bold"),
        " + waiting ",
        (f"{books.waiting:,}", "bold"),
        *([f" + gone since {books.gone:,}"] if books.gone else []),
    )


def _rows(books: Books, known: int) -> list[tuple[str, Text]]:
    acts = books.acts
    clean = "bold green" if books.balanced else "bold red"
    rows = [
        ("  enqueued", Text(_producers(books))),
        (
            "  lost",
            Text.assemble(
                (str(len(books.lost)), clean),
                ", and ",
                (str(len(books.unexpected)), clean),
                " that came from nowhere",
            ),
        ),
        (
            "  duplicates",
            Text.assemble(
                (str(len(books.completed_twice)), clean),
                f" completed twice; {count(known, 'id')} sent again, answered as known",
            ),
        ),
        (
            "  deliveries",
            Text(
                f"{acts[Act.CLAIM]:,}: {count(books.retries, 'retry', 'retries')} "
                f"({books.timeouts} timed out), {books.redelivered:,} after crashes, "
                f"{acts[Act.SNOOZE]:,} after snoozes"
            ),
        ),
        ("  crashes", Text(_survived(len(books.crashes)))),
    ]
    slowest = sorted(books.crashes, key=lambda crash: crash.freed_after)[-SHOWN_CRASHES:]
    rows += [("", _crash(crash)) for crash in books.crashes if crash in slowest]
    agree = (
        f"{sum(acts.values()):,} events; the store's counts and our receipts agree"
        if books.balanced
        else f"disagree: {', '.join([*books.disagree, *(f'{q}/{i}' for q, i in books.lost[:5])])}"
    )
    return [*rows, ("  journal", Text(agree))]


def _producers(books: Books) -> str:
    ours = books.enqueued - books.by_schedules - books.by_hand
    return f"{ours:,} by the demo, {books.by_schedules:,} by schedules, {books.by_hand:,} by hand"


def _survived(crashes: int) -> str:
    if not crashes:
        return "none so far"
    return f"{crashes} survived" + (
        f"; the {SHOWN_CRASHES} slowest to recover:" if crashes > SHOWN_CRASHES else ""
    )


def _crash(crash: Crash) -> Text:
    again = crash.recovered_after
    then = "" if again is None else f", all running again after {again:.2f} s"
    jobs = count(len(crash.jobs), "job")
    return Text(f"{crash.by}: {jobs} freed after {crash.freed_after:.3f} s{then}")
