"""`ackline demo`: a tour with crashes, and the proof that no job was lost."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import math
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import webbrowser
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import click
from rich.text import Text

from ackline import queues as _queues
from ackline.cli import values
from ackline.cli.app import command
from ackline.cli.exits import INTERRUPTED, Refusal, UsageMistake
from ackline.cli.queues import count_cells, counts_table
from ackline.cli.session import Session
from ackline.cli.words import count, plain
from ackline.cron import Schedule
from ackline.demo.accounts import Accounts, Result
from ackline.demo.load import QUEUES, Load
from ackline.events import Act, Event
from ackline.job import State
from ackline.queues import Queues

FOLDER = Path(".ackline-demo")
ACT = 45.0
"""Seconds from one act of trouble to the next."""
TICK = 0.1
SUMMARY = 5.0
"""Seconds between two lines about everyday events."""
DRAIN = 0.4
"""The share of a short demo's time in which nothing new comes, so that the queues drain, …"""
LONGEST_DRAIN = 8.0
"""… in seconds, at most."""
PATIENCE = 60.0
"""Seconds that the workers may take to start."""
SHORTEST = 1.0
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
def demo(session: Session, seconds: float | None, port: int, browser: bool) -> None:
    """See it work: a live dashboard, retries, crashes, and no job lost.

    Seven queues of three customers, two worker processes, a kill -9 now and then, poison jobs,
    and at the end the proof from the journal that every job is accounted for. The store is kept
    in .ackline-demo.
    """
    if seconds is not None and seconds < SHORTEST:
        raise UsageMistake(f"a demo takes {SHORTEST:g} s at least, and 10 to be seen in full")
    with _folder() as folder, _queues.open(f"sqlite:///{folder.absolute()}/demo.db") as queues:
        tour = Tour(session, queues, folder, seconds)
        interrupted = tour.run(port, browser)
        result = tour.accounts.close(queues, tour.load.accepted)
        if session.json:
            session.document({**_document(result), "store": str(folder / "demo.db")})
        else:
            _show(session, queues, result, folder)
    if not result.balanced:
        raise Refusal("not every job is accounted for: this is a bug in Ackline, please report it")
    if interrupted and seconds is not None:
        raise click.exceptions.Exit(INTERRUPTED)


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """The folder of the demo, emptied; one demo at a time uses it."""
    FOLDER.mkdir(exist_ok=True)
    with (FOLDER / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refusal("a demo runs here already: end it, or use another folder") from None
        for old in FOLDER.glob("demo.*"):
            shutil.rmtree(old) if old.is_dir() else old.unlink()
        (FOLDER / ".gitignore").write_text("*\n")
        yield FOLDER


class Tour:
    """One run of the demo."""

    def __init__(
        self, session: Session, queues: Queues, folder: Path, seconds: float | None
    ) -> None:
        self.accounts = Accounts()
        self.load = Load(queues, self._tell)
        self._session, self._queues, self._folder = session, queues, folder
        self._seconds = math.inf if seconds is None else seconds
        self._began = time.monotonic()
        self._cursor: str | None = None
        self._everyday: Counter[str] = Counter()
        self._next_summary = SUMMARY

    def run(self, port: int, browser: bool) -> bool:
        """Play until the time is over; returns whether it was interrupted."""
        terminated = signal.signal(signal.SIGTERM, signal.default_int_handler)
        processes: list[subprocess.Popen[bytes]] = []
        try:
            self._start(processes, port, browser)
            self._play(processes)
            self._tell("the time is over, the workers are asked to stop")
            return False
        except KeyboardInterrupt:
            self._tell("interrupted: the workers finish what they have begun")
            return True
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                with process:  # closes its input and waits
                    pass
            self._read_journal()
            signal.signal(signal.SIGTERM, terminated)

    # --- the processes ---

    def _start(self, processes: list[subprocess.Popen[bytes]], port: int, browser: bool) -> None:
        if not self._session.json:
            info = self._queues.info()
            self._session.say(
                Text.assemble(("ackline demo", "bold"), f"  on {self._folder}/demo.db")
            )
            self._session.say(f"durability {info.durability}", "dim")
        if url := self._dashboard(processes, port):
            self._say(Text.assemble("dashboard ", (url, "bold cyan")))
            if browser and self._session.console.is_terminal:
                _open_browser(url)
        else:
            self._say(Text("no dashboard: pip install 'ackline[service]'", "yellow"))
        targets = [f"ackline.demo.handlers:{name.replace('/', '_')}" for name in QUEUES]
        options = ["--processes", "2", "--concurrency", "6", "--grace", "1", "--with-parent"]
        processes.append(self._process("worker", *targets, *options))
        self._tell(f"2 worker processes start, supervised by {processes[-1].pid}")

    def _dashboard(self, processes: list[subprocess.Popen[bytes]], port: int) -> str | None:
        """Start the service, if it is installed; returns its address."""
        try:
            from ackline.service import schedules
        except ModuleNotFoundError:
            return None
        reports = self._queues["globex/reports"]
        schedules.write(reports.store, reports.key, Schedule("usage", "* * * * *", "usage", {}))
        port = _free(port)
        store = f"sqlite:///{self._folder.absolute()}/demo.db"
        options = ["--store", store, "--port", str(port), "--grace", "1"]
        processes.append(self._process("serve", *options))
        return f"http://127.0.0.1:{port}/"

    def _process(self, *arguments: str) -> subprocess.Popen[bytes]:
        """A command of ours, in a session of its own: Ctrl-C reaches only the demo."""
        store = f"sqlite:///{self._folder.absolute()}/demo.db"
        with (self._folder / f"demo.{arguments[0]}.log").open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "ackline", *arguments],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env={**os.environ, "ACKLINE_STORE": store},
                start_new_session=True,
            )

    # --- the story ---

    def _play(self, processes: Sequence[subprocess.Popen[bytes]]) -> None:
        act = min(ACT, self._seconds)
        turns = itertools.count()
        scenes = (turn * act + at for turn in turns for at in self.load.act(turn + 1, act))
        drain = min(DRAIN * self._seconds, LONGEST_DRAIN)
        self._wait_for_workers(processes)
        due = next_load = 0.0
        while (elapsed := time.monotonic() - self._began) < self._seconds:
            going_on = elapsed < self._seconds - drain
            if going_on and elapsed >= next_load:
                self.load.everyday(0.5)
                next_load += 0.5
            if going_on and elapsed >= due:
                due = next(scenes)
            self._look(processes, elapsed)

    def _wait_for_workers(self, processes: Sequence[subprocess.Popen[bytes]]) -> None:
        """On a slow machine the story begins later, so that its whole length is seen."""
        while not any(self._queues[name].workers() for name in QUEUES):
            if time.monotonic() - self._began > PATIENCE:
                raise Refusal(f"no worker of the demo came within {PATIENCE:g} s")
            self._look(processes, 0.0)
        self._began = time.monotonic()

    def _look(self, processes: Sequence[subprocess.Popen[bytes]], elapsed: float) -> None:
        self._read_journal()
        if elapsed >= self._next_summary and self._everyday:
            self._tell(", ".join(f"{number} {what}" for what, number in self._everyday.items()))
            self._everyday.clear()
            self._next_summary = elapsed + SUMMARY
        for process in processes:
            if process.poll() is not None:
                raise Refusal(f"a process of the demo ended: {self._folder} has its log")
        time.sleep(TICK)

    def _read_journal(self) -> None:
        while events := self._queues.store.events(None, self._cursor, 5000):
            self._cursor = events[-1].cursor
            self.accounts.read(events)
            for line in self._lines(events):
                self._tell(line)

    def _lines(self, events: Iterable[Event]) -> Iterator[str]:
        """What deserves a line of its own; the rest is counted."""
        freed = Counter(event.worker for event in events if event.act is Act.EXPIRE)
        for worker, jobs in freed.items():
            yield f"worker {worker} died: {count(jobs, 'job')} freed"
        for event in events:
            match event.act, event.to:
                case ((Act.FAIL | Act.EXPIRE), State.FAILED) if event.kind != "deliver":
                    yield f"{event.id} goes to the DLQ: {event.note}"
                case Act.CANCEL, _ if event.note:
                    yield f"{event.id} cancelled: {event.note}"
                case Act.COMPLETE, _:
                    self._everyday["completed"] += 1
                case Act.FAIL, _:
                    self._everyday["failed"] += 1
                case Act.SNOOZE, _:
                    self._everyday["snoozed"] += 1
                case _:
                    pass

    def _tell(self, happened: str) -> None:
        at = time.monotonic() - self._began
        self._say(Text.assemble((f"{at:5.1f} s  ", "dim"), plain(happened)))

    def _say(self, line: Text) -> None:
        if not self._session.json:
            self._session.line(line)
            sys.stdout.flush()


def _free(port: int) -> int:
    """This port, or any that is free."""
    for wanted in (port, 0):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", wanted)) as found:
            return int(found.getsockname()[1])
    raise Refusal("there is no free port")


def _open_browser(url: str) -> None:
    """Show it, if there is a screen that belongs to this terminal."""
    screen = sys.platform == "darwin" or bool({"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys())
    if screen and "SSH_CONNECTION" not in os.environ:
        # With some browsers the call returns only when they are closed.
        threading.Thread(target=webbrowser.open, args=[url], daemon=True).start()


# --- the proof ---


def _show(session: Session, queues: Queues, result: Result, folder: Path) -> None:
    table = counts_table(session)
    for info in queues.describe():
        table.add_row(Text(plain(info.key.name), "bold"), *count_cells(info))
    session.say(table)
    verdict = ("Every job is accounted for.", "bold green")
    session.say(Text(*(verdict if result.balanced else ("JOBS ARE MISSING.", "bold red"))))
    states, gone = result.states, f" + gone since {result.gone:,}" * (result.gone > 0)
    session.say(
        f"  enqueued {result.enqueued:,} = completed {states[State.COMPLETED]:,}"
        f" + DLQ {states[State.FAILED]:,} + cancelled {states[State.CANCELLED]:,}"
        f" + waiting {result.waiting:,}{gone}"
    )
    session.say(f"  lost {len(result.lost)}, completed twice {len(result.completed_twice)}")
    session.say(
        f"  {result.deliveries:,} deliveries: {count(result.retries, 'retry', 'retries')}, "
        f"{result.freed:,} taken from {count(result.crashed_workers, 'worker')} that died"
    )
    program = "./run" if os.access("run", os.X_OK) and Path("run").is_file() else "ackline"
    session.say(f"\nKept in {folder}, with the logs of the processes. Look around:")
    for arguments in ("queues", "list acme/payments --state failed", "show acme/payments stolen"):
        session.line(Text(f"  {program} {arguments} --store {folder}/demo.db", "cyan"))


def _document(result: Result) -> dict[str, object]:
    """The result for programs."""
    states = {state.value: number for state, number in result.states.items()}
    return {name: getattr(result, name) for name in result.__struct_fields__} | {"states": states}
