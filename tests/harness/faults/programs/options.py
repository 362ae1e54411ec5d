"""What every program of the harness needs: its options, history, queue and stop event."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec

from ackline.core import retry
from ackline.core.config import Policy
from ackline.queue import Queue
from ackline.queues import Queues
from ackline.stores.contract import Store
from ackline.stores.registry import store_from_url
from ackline.worker.processes.child_process import stop_with_parent
from ackline.worker.processes.stop_signals import handle_stop_signals
from tests.harness.faults.broken_stores import VARIANTS
from tests.harness.faults.checks.history import History, Phase, Step, StepType
from tests.harness.faults.recording_store import RecordingStore

MAX_ATTEMPTS = 30
"""High enough that faults alone move no job to the DLQ."""

QUEUE = "work"

ROOT = Path(__file__).parents[4]


class ProgramOptions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The options of one process; its role is the module that it runs."""

    name: str
    store: str
    folder: str
    seed: int = 0
    source: str = ""
    """The store from which a relay moves jobs."""
    variant: str = ""
    """The name of a store in `broken_stores`; empty for the unchanged store."""
    jobs: int = 0
    """How many jobs a producer enqueues before it exits; 0 for no limit."""
    max_pause: float = 0.01
    """The longest pause of a producer between two calls, in seconds."""
    concurrency: int = 4
    grace: float = 5.0
    processes: int = 2
    parent: str = ""
    """The supervisor that started this worker."""
    maintenance: bool = True
    outlives_parent: bool = False
    """A control: do not stop when the parent has exited."""
    crash: str = ""
    """Where a crashing producer kills itself, as `file.operation.number`."""
    count_from_open: bool = False
    """Count operations from the opening of the store, not from the first job."""

    def command(self, role: str) -> list[str]:
        """The command line of a process of this role."""
        text = msgspec.json.encode(self).decode()
        return [sys.executable, "-m", f"{__package__}.{role}", text]

    def environment(self) -> dict[str, str]:
        """The environment of the process, in which it can import this package."""
        paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
        return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def parse_command_line() -> ProgramOptions:
    """The options of this process."""
    return msgspec.json.decode(sys.argv[1], type=ProgramOptions)


def policy(lease: float) -> Policy:
    """Many attempts and quick retries."""
    return Policy(lease=lease, max_attempts=MAX_ATTEMPTS, backoff=retry.fixed(0.02))


class Program:
    """What every role needs: its history, its queue, and its stop event."""

    def __init__(self, options: ProgramOptions) -> None:
        self.options = options
        self.history = History(Path(options.folder), options.name)
        store: Store = store_from_url(options.store)
        if options.variant:
            store = VARIANTS[options.variant](store)
        self.queues = Queues(RecordingStore(store, self.history))
        self.queue: Queue[Any, Any] = self.queues[QUEUE]
        self.stopping = threading.Event()

    def open(self) -> None:
        """Open the store; from now on, SIGTERM and the exit of the parent stop it."""
        self.log_step("started", str(os.getpid()))
        self.queues.store.open()
        handle_stop_signals(lambda _number: self.stopping.set())
        if not self.options.outlives_parent:
            stop_with_parent(self.stopping.set)

    def wait_until_stopped(self) -> None:
        """Wait for the stop event."""
        while not self.stopping.wait(0.5):
            pass  # a signal may have come to another thread, see `handle_stop_signals`

    def log_step(self, act: str, note: str = "") -> None:
        """Record in the history that this process has come this far."""
        self.history.write(
            Step(
                type=StepType.PROCESS,
                phase=Phase.OK,
                act=act,
                id=self.options.parent,
                worker=self.options.name,
                note=note,
            )
        )

    def close(self) -> None:
        """Stop gracefully."""
        self.queues.close()
        self.log_step("stopped")
        self.history.close()
