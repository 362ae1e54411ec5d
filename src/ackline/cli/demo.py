"""`ackline demo`: a tour with crashes, and the proof that no job was lost."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from ackline import queues as _queues
from ackline.cli import values
from ackline.cli.app import command
from ackline.cli.exits import INTERRUPTED, Refusal, UsageMistake
from ackline.cli.session import Session
from ackline.cli.stage import Stage, show_books
from ackline.demo.books import Bookkeeper, Books, books_document
from ackline.demo.crew import PROCESSES, Member, start_service, start_workers
from ackline.demo.dashboard import Dashboard, keep_schedules, open_browser, take_address
from ackline.demo.figures import Figures
from ackline.demo.narrator import Narrator
from ackline.demo.place import take_place
from ackline.demo.story import QUEUES, Story
from ackline.errors import EventsDropped
from ackline.events import Event
from ackline.queues import Queues

TICK = 0.1
"""Seconds between two steps of the story."""

PAGE = 5000

PATIENCE = 60.0
"""Seconds that the workers may take to start."""

SHORTEST = 1.0
"""The shortest demo, in seconds, in which anything happens."""

PORT = 8000


@command("demo", creates=True)
@click.option(
    "--seconds",
    type=values.seconds,
    metavar="SPAN",
    help="How long to run; by default, until Ctrl-C.",
)
@click.option(
    "--port",
    type=values.port,
    default=str(PORT),
    metavar="PORT",
    help="Where the dashboard is; if it is taken, a free one.",
)
@click.option(
    "--browser/--no-browser", default=True, help="Open the dashboard, if there is a screen."
)
@click.option("--spark/--no-spark", default=True, help="Make figures for the analytics page.")
@click.option("--checkout", type=click.Path(path_type=Path), hidden=True)
def demo(
    session: Session,
    seconds: float | None,
    port: int,
    browser: bool,
    spark: bool,
    checkout: Path | None,
) -> None:
    """See it work: a live dashboard, retries, crashes, and no job lost.

    Seven queues of three customers, two worker processes, a kill -9 now and then, poison jobs,
    and at the end the proof from the journal that every job is accounted for. The store is kept
    in .ackline-demo.
    """
    if seconds is not None and seconds < SHORTEST:
        raise UsageMistake(f"the story needs {SHORTEST:g} s at least, and 10 to be seen in full")
    with take_place() as path, _queues.open(f"sqlite:///{path.absolute()}") as queues:
        dashboard = take_address(port)
        show = Show(session, queues, path, seconds, dashboard, checkout if spark else None)
        if dashboard is not None and browser and session.console.is_terminal and not session.json:
            open_browser(dashboard.url)
        interrupted = show.run(figures=spark and dashboard is not None)
        books = show.close_books()
    if session.json:
        session.document({**books_document(books), "store": str(path)})
    else:
        show_books(session, books, show.duplicates, path, program())
    if not books.balanced:
        raise Refusal("the books do not balance: this is a bug in Ackline, please report it")
    if interrupted and seconds is not None:
        raise click.exceptions.Exit(INTERRUPTED)


def program() -> str:
    """The name by which this command is called here."""
    return "./run" if os.access("run", os.X_OK) and Path("run").is_file() else "ackline"


class Show:
    """One run of the demo."""

    def __init__(
        self,
        session: Session,
        queues: Queues,
        path: Path,
        seconds: float | None,
        dashboard: Dashboard | None,
        checkout: Path | None,
    ) -> None:
        self._queues = queues
        self._path = path.absolute()
        self._seconds = seconds
        self._dashboard = dashboard
        self._cursor: str | None = None
        self._pids: dict[str, int] = {}
        self._crew: list[Member] = []
        url = None if dashboard is None else dashboard.url
        self._stage = Stage(session, queues, path, seconds, url)
        self._story = Story(queues, seconds, self._stage.tell)
        self._figures = Figures(self._url, self._path, self._stage.tell, checkout)
        self._keeper = Bookkeeper(self._story.ledger)
        self._narrator = Narrator(self._stage.tell, self._pids.get)

    @property
    def duplicates(self) -> int:
        """How many enqueues the store answered as duplicates."""
        return self._story.ledger.duplicates

    @property
    def _url(self) -> str:
        return f"sqlite:///{self._path}"

    def run(self, *, figures: bool) -> bool:
        """Play the story; returns whether it was interrupted."""
        with self._stage, self._ending_all(), _terminated_as_interrupted():
            try:
                self._start()
                self._play(figures)
            except KeyboardInterrupt:
                self._stage.tell("interrupted: the workers finish what they have begun")
                return True
            self._stage.tell("the time is over, the workers are asked to stop")
            return False

    def close_books(self) -> Books:
        """The books, once all processes have ended."""
        self._look()
        return self._keeper.close(self._queues)

    # --- the processes ---

    def _start(self) -> None:
        self._crew.append(start_workers(self._url, self._path.with_suffix(".log")))
        pid = self._crew[0].process.pid
        self._stage.tell(f"{PROCESSES} worker processes start, supervised by {pid}")
        if self._dashboard is not None:
            self._story.ledger.schedules |= keep_schedules(self._queues)
            listener, lake = self._dashboard.listener, self._figures.lake
            log = self._path.with_suffix(".service.log")
            self._crew.append(start_service(self._url, lake, listener.fileno(), log))
            listener.close()

    @contextlib.contextmanager
    def _ending_all(self) -> Iterator[None]:
        try:
            yield
        finally:
            self._figures.stop()
            for member in self._crew:
                member.ask_to_stop()
            for member in self._crew:
                member.stop()

    # --- the play ---

    def _play(self, figures: bool) -> None:
        self._play_until_workers_come()
        began = time.monotonic()
        while (elapsed := time.monotonic() - began) < (self._seconds or float("inf")):
            self._play_at(elapsed)
            if figures:
                self._figures.look(elapsed)
            time.sleep(TICK)

    def _play_until_workers_come(self) -> None:
        """On a slow machine the story begins later, so that its whole length is seen."""
        until = time.monotonic() + PATIENCE
        while not self._pids:
            if time.monotonic() > until:
                raise Refusal(
                    f"no worker of the demo came within {PATIENCE:g} s: is the machine too busy?"
                )
            self._play_at(0.0)
            time.sleep(TICK)

    def _play_at(self, elapsed: float) -> None:
        self._story.play(elapsed)
        self._look()
        self._stage.refresh(elapsed)
        for member in self._crew:
            if not member.alive:
                raise Refusal(f"a process of the demo ended by itself, {member.last_words()}")

    def _look(self) -> None:
        for name in QUEUES:
            self._pids |= {w.beat.id: w.beat.pid for w in self._queues[name].workers()}
        while events := self._read():
            self._cursor = events[-1].cursor
            self._keeper.read(events)
            self._stage.count(events)
            self._narrator.read(events)
        self._narrator.read_crashes(self._keeper.books.crashes)

    def _read(self) -> Sequence[Event]:
        try:
            return self._queues.store.events(None, self._cursor, PAGE)
        except EventsDropped as error:
            raise Refusal(f"the books cannot be closed without all events: {error}") from error


@contextlib.contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM ends the demo as Ctrl-C does."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
