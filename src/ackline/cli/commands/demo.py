"""`ackline demo`: workers, failures and crashes, and the proof that no job was lost."""

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
from ackline.cli.app import command
from ackline.cli.exits import INTERRUPTED, CommandError, UsageError
from ackline.cli.options import values
from ackline.cli.output.queue_tables import count_cells, counts_table
from ackline.cli.output.text import pluralize, safe
from ackline.cli.session import Session
from ackline.core.cron import Schedule
from ackline.core.events import Act, Event
from ackline.core.job import State
from ackline.demo.job_audit import AuditResult, JobAudit
from ackline.demo.workload import QUEUES, Workload
from ackline.queues import Queues

FOLDER = Path(".ackline-demo")
SCENARIO_SECONDS = 45.0
"""Seconds after which the scenarios start again."""
POLL_EVERY = 0.1
SUMMARY_EVERY = 5.0
"""Seconds between two summaries of routine events."""
DRAIN_SHARE = 0.4
"""Fraction of a short demo in which nothing is enqueued, so that the queues drain, …"""
MAX_DRAIN = 8.0
"""… in seconds, at most."""
WORKER_START_TIMEOUT = 60.0
"""Seconds within which a worker must start."""
MIN_SECONDS = 1.0
PORT = 8000


@command("demo", creates_store=True)
@click.option(
    "--seconds",
    type=values.seconds,
    metavar="SPAN",
    help="How long to run (default: until Ctrl-C).",
)
@click.option(
    "--port",
    type=values.port,
    default=str(PORT),
    metavar="PORT",
    help="Port of the dashboard; if it is in use, a free one.",
)
@click.option(
    "--browser/--no-browser",
    default=True,
    help="Open the dashboard in a browser, if there is a display.",
)
def demo(session: Session, seconds: float | None, port: int, browser: bool) -> None:
    """See it work: a live dashboard, retries, crashes, and no job lost.

    Seven queues of three customers, two worker processes, an occasional kill -9, poison jobs and,
    at the end, the proof from the journal that every job is accounted for. The store is kept in
    .ackline-demo.
    """
    if seconds is not None and seconds < MIN_SECONDS:
        raise UsageError(f"a demo takes at least {MIN_SECONDS:g} s, and 10 s to show everything")
    with _folder() as folder, _queues.open(f"sqlite:///{folder.absolute()}/demo.db") as queues:
        run = DemoRun(session, queues, folder, seconds)
        interrupted = run.run(port, browser)
        result = run.audit.result(queues, run.workload.accepted)
        if session.json:
            session.print_json({**_document(result), "store": str(folder / "demo.db")})
        else:
            _show(session, queues, result, folder)
    if not result.ok:
        raise CommandError(
            "not every job is accounted for: this is a bug in Ackline, please report it"
        )
    if interrupted and seconds is not None:
        raise click.exceptions.Exit(INTERRUPTED)


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """The folder of the demo, emptied and locked for this run."""
    FOLDER.mkdir(exist_ok=True)
    with (FOLDER / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CommandError(
                "a demo is already running here: stop it, or use another folder"
            ) from None
        for old in FOLDER.glob("demo.*"):
            shutil.rmtree(old) if old.is_dir() else old.unlink()
        (FOLDER / ".gitignore").write_text("*\n")
        yield FOLDER


class DemoRun:
    """One run of the demo."""

    def __init__(
        self, session: Session, queues: Queues, folder: Path, seconds: float | None
    ) -> None:
        self.audit = JobAudit()
        self.workload = Workload(queues, self._log)
        self._session, self._queues, self._folder = session, queues, folder
        self._seconds = math.inf if seconds is None else seconds
        self._started_at = time.monotonic()
        self._cursor: str | None = None
        self._routine_events = Counter[str]()
        self._next_summary = SUMMARY_EVERY

    def run(self, port: int, browser: bool) -> bool:
        """Run until the time is up; returns whether it was interrupted."""
        terminated = signal.signal(signal.SIGTERM, signal.default_int_handler)
        processes: list[subprocess.Popen[bytes]] = []
        try:
            self._start(processes, port, browser)
            self._run_scenarios(processes)
            self._log("time is up: stopping the workers")
            return False
        except KeyboardInterrupt:
            self._log("interrupted: workers finish their running jobs")
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
            self._session.print(
                Text.assemble(("ackline demo", "bold"), f"  on {self._folder}/demo.db")
            )
            self._session.print(f"durability {info.durability}", "dim")
        if url := self._dashboard(processes, port):
            self._print(Text.assemble("dashboard ", (url, "bold cyan")))
            if browser and self._session.console.is_terminal:
                _open_browser(url)
        else:
            self._print(Text("no dashboard: pip install 'ackline[service]'", "yellow"))
        targets = [f"ackline.demo.handlers:{name.replace('/', '_')}" for name in QUEUES]
        options = ["--processes", "2", "--concurrency", "6", "--grace", "1", "--with-parent"]
        processes.append(self._process("worker", *targets, *options))
        self._log(f"starting 2 worker processes, supervisor {processes[-1].pid}")

    def _dashboard(self, processes: list[subprocess.Popen[bytes]], port: int) -> str | None:
        """Start the service, if it is installed; returns its URL."""
        try:
            from ackline.service import schedules
        except ModuleNotFoundError:
            return None
        reports = self._queues["globex/reports"]
        schedules.write(reports.store, reports.key, Schedule("usage", "* * * * *", "usage", {}))
        port = _free_port(port)
        store = f"sqlite:///{self._folder.absolute()}/demo.db"
        options = ["--store", store, "--port", str(port), "--grace", "1"]
        processes.append(self._process("serve", *options))
        return f"http://127.0.0.1:{port}/"

    def _process(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a command in a session of its own, so that Ctrl-C reaches only the demo."""
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

    # --- the scenarios ---

    def _run_scenarios(self, processes: Sequence[subprocess.Popen[bytes]]) -> None:
        length = min(SCENARIO_SECONDS, self._seconds)
        faults = (
            number * length + at
            for number in itertools.count()
            for at in self.workload.run_faults(number + 1, length)
        )
        drain = min(DRAIN_SHARE * self._seconds, MAX_DRAIN)
        self._wait_for_workers(processes)
        next_fault = next_load = 0.0
        while (elapsed := time.monotonic() - self._started_at) < self._seconds:
            producing = elapsed < self._seconds - drain
            if producing and elapsed >= next_load:
                self.workload.enqueue_routine(0.5)
                next_load += 0.5
            if producing and elapsed >= next_fault:
                next_fault = next(faults)
            self._poll(processes, elapsed)

    def _wait_for_workers(self, processes: Sequence[subprocess.Popen[bytes]]) -> None:
        """Wait until a worker runs; the demo's time starts then."""
        while not any(self._queues[name].workers() for name in QUEUES):
            if time.monotonic() - self._started_at > WORKER_START_TIMEOUT:
                raise CommandError(f"no worker started within {WORKER_START_TIMEOUT:g} s")
            self._poll(processes, 0.0)
        self._started_at = time.monotonic()

    def _poll(self, processes: Sequence[subprocess.Popen[bytes]], elapsed: float) -> None:
        self._read_journal()
        if elapsed >= self._next_summary and self._routine_events:
            self._log(
                ", ".join(
                    f"{number} {name}" for name, number in sorted(self._routine_events.items())
                )
            )
            self._routine_events.clear()
            self._next_summary = elapsed + SUMMARY_EVERY
        for process in processes:
            if process.poll() is not None:
                raise CommandError(
                    f"a process of the demo has exited: see its log in {self._folder}"
                )
        time.sleep(POLL_EVERY)

    def _read_journal(self) -> None:
        while events := self._queues.store.events(None, self._cursor, 5000):
            self._cursor = events[-1].cursor
            self.audit.read(events)
            for line in self._lines(events):
                self._log(line)

    def _lines(self, events: Iterable[Event]) -> Iterator[str]:
        """A line for each notable event; routine events are counted."""
        recovered = Counter(event.worker for event in events if event.act is Act.EXPIRE)
        for worker, jobs in recovered.items():
            yield f"worker {worker} is dead: {pluralize(jobs, 'job')} recovered"
        for event in events:
            match event.act, event.to:
                case ((Act.FAIL | Act.EXPIRE), State.FAILED) if event.kind != "deliver":
                    yield f"{event.id} failed, moved to the DLQ: {event.note}"
                case Act.CANCEL, _ if event.note:
                    yield f"{event.id} cancelled: {event.note}"
                case Act.COMPLETE, _:
                    self._routine_events["completed"] += 1
                case Act.FAIL, _:
                    self._routine_events["failed"] += 1
                case Act.SNOOZE, _:
                    self._routine_events["snoozed"] += 1
                case _:
                    pass

    def _log(self, message: str) -> None:
        at = time.monotonic() - self._started_at
        self._print(Text.assemble((f"{at:5.1f} s  ", "dim"), safe(message)))

    def _print(self, line: Text) -> None:
        if not self._session.json:
            self._session.print_line(line)
            sys.stdout.flush()


def _free_port(port: int) -> int:
    """This port, or any free one."""
    for candidate in (port, 0):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", candidate)) as found:
            return int(found.getsockname()[1])
    raise CommandError("no port is free")


def _open_browser(url: str) -> None:
    """Open a URL, if this terminal has a display."""
    display = sys.platform == "darwin" or bool({"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys())
    if display and "SSH_CONNECTION" not in os.environ:
        # Some browsers block the call until they are closed.
        threading.Thread(target=webbrowser.open, args=[url], daemon=True).start()


# --- the proof ---


def _show(session: Session, queues: Queues, result: AuditResult, folder: Path) -> None:
    table = counts_table(session)
    for info in queues.describe():
        table.add_row(Text(safe(info.key.name), "bold"), *count_cells(info))
    session.print(table)
    verdict = ("Every job is accounted for.", "bold green")
    session.print(Text(*(verdict if result.ok else ("JOBS ARE MISSING.", "bold red"))))
    states = result.states
    removed = f" + removed {result.removed:,}" if result.removed else ""
    session.print(
        f"  enqueued {result.enqueued:,} = completed {states[State.COMPLETED]:,}"
        f" + DLQ {states[State.FAILED]:,} + cancelled {states[State.CANCELLED]:,}"
        f" + unfinished {result.unfinished:,}{removed}"
    )
    session.print(f"  lost {len(result.lost)}, completed twice {len(result.completed_twice)}")
    session.print(
        f"  {result.deliveries:,} deliveries: {pluralize(result.retries, 'retry', 'retries')}, "
        f"{result.recovered:,} recovered from {pluralize(result.crashed_workers, 'dead worker')}"
    )
    program = "./run" if os.access("run", os.X_OK) and Path("run").is_file() else "ackline"
    session.print(f"\nThe store and the logs are in {folder}. Try:")
    for arguments in ("queues", "list acme/payments --state failed", "show acme/payments stolen"):
        session.print_line(Text(f"  {program} {arguments} --store {folder}/demo.db", "cyan"))


def _document(result: AuditResult) -> dict[str, object]:
    """The result as JSON."""
    states = {state.value: number for state, number in result.states.items()}
    return {name: getattr(result, name) for name in result.__struct_fields__} | {"states": states}
