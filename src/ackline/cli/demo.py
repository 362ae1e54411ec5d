"""`ackline demo`: a story with crashes, and the proof that no job was lost."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated

import typer

from ackline import queues as _queues
from ackline.cli import values
from ackline.cli.app import command
from ackline.cli.exits import INTERRUPTED, Refusal, UsageMistake
from ackline.cli.session import Session
from ackline.cli.stage import Stage, show_books
from ackline.demo.books import Bookkeeper, Books, books_document
from ackline.demo.crew import Crew
from ackline.demo.narrator import Narrator
from ackline.demo.place import take_place
from ackline.demo.story import QUEUES, Story
from ackline.errors import EventsDropped
from ackline.events import Event
from ackline.job import LIVE
from ackline.queues import Queues

TICK = 0.1
"""Seconds between looks."""

PAGE = 5000

SHORTEST = 1.0
"""Seconds in which at least something happens."""


@command("demo", panel="First", creates=True)
def demo(
    session: Session,
    seconds: Annotated[
        float, typer.Option(parser=values.seconds, metavar="SPAN", help="How long it may take.")
    ] = 20.0,
) -> None:
    """See it work: retries, crashes, and no job lost.

    Four queues, two worker processes, a kill -9, a poison job, and at the end the proof
    from the journal that every job is accounted for. The store is kept in .ackline-demo.
    """
    if seconds < SHORTEST:
        raise UsageMistake(f"the story needs {SHORTEST:g} s at least, and 10 to be seen in full")
    with take_place() as path:
        url = f"sqlite:///{path.absolute()}"
        with _queues.open(url) as queues:
            interrupted, books, ledger_duplicates = Show(session, queues, path, seconds).run()
    if session.json:
        session.document({**books_document(books), "store": str(path)})
    else:
        show_books(session, books, ledger_duplicates, path, program())
    if not books.balanced:
        raise Refusal("the books do not balance: this is a bug in Ackline, please report it")
    if interrupted:
        raise typer.Exit(INTERRUPTED)


def program() -> str:
    """How this command is called here."""
    return "./run" if os.access("run", os.X_OK) and Path("run").is_file() else "ackline"


class Show:
    """One run of the demo."""

    def __init__(self, session: Session, queues: Queues, path: Path, seconds: float) -> None:
        self._queues = queues
        self._path = path
        self._seconds = seconds
        self._cursor: str | None = None
        self._pids: dict[str, int] = {}
        self._stage = Stage(session, queues, path, seconds)
        self._story = Story(queues, seconds, self._stage.tell)
        self._keeper = Bookkeeper(self._story.ledger.kills)
        self._narrator = Narrator(self._stage.tell, self._pids.get)

    def run(self) -> tuple[bool, Books, int]:
        """Play it; answers whether it was interrupted, the books, and the known duplicates."""
        interrupted = False
        log = self._path.with_suffix(".log")
        with self._stage:
            crew = Crew(f"sqlite:///{self._path.absolute()}", log)
            self._stage.tell(f"2 worker processes start, supervised by {crew.process.pid}")
            try:
                self._play(crew)
            except KeyboardInterrupt:
                interrupted = True
                self._stage.tell("interrupted: the workers finish what they have begun")
            finally:
                crew.stop()
            self._look()
        ledger = self._story.ledger
        books = self._keeper.close(ledger.asked, ledger.accepted, self._queues)
        return interrupted, books, ledger.duplicates

    def _play(self, crew: Crew) -> None:
        began = time.monotonic()
        while (elapsed := time.monotonic() - began) < self._seconds:
            self._story.play(elapsed)
            self._look()
            self._stage.refresh(elapsed)
            if self._story.over and self._settled():
                self._stage.tell("everything is settled, the workers are asked to stop")
                return
            if not crew.alive:
                raise Refusal(f"the workers ended by themselves, {crew.last_words()}")
            time.sleep(TICK)
        self._stage.tell("the time is over, the workers are asked to stop")

    def _look(self) -> None:
        for name in QUEUES:
            self._pids |= {w.beat.id: w.beat.pid for w in self._queues[name].workers()}
        while events := self._read():
            self._cursor = events[-1].cursor
            self._keeper.read(events)
            self._stage.count(events)
            self._narrator.read(events)
        self._narrator.read_crashes(self._keeper.books.crashes)

    def _read(self) -> list[Event]:
        try:
            return self._queues.store.events(None, self._cursor, PAGE)
        except EventsDropped as error:
            raise Refusal(f"the books cannot be closed without all events: {error}") from error

    def _settled(self) -> bool:
        return not any(info.counts[state] for info in self._queues.describe() for state in LIVE)
