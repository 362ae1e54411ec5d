"""The assignment of a process of the harness, which it gets on its command line."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec

from ackline import retry
from ackline.config import Policy
from ackline.queue import Queue
from ackline.queues import Queues
from ackline.stores.base import Store
from ackline.stores.registry import store_from_url
from ackline.worker.child import stop_with_parent
from ackline.worker.signals import hear_signals
from tests.harness.faults.history import History, Phase, Step, What
from tests.harness.faults.recording import RecordingStore
from tests.harness.faults.variants import VARIANTS

MAX_ATTEMPTS = 30
"""High enough that faults alone dead-letter no ordinary job."""

QUEUE = "work"

ROOT = Path(__file__).parents[3]


class Assignment(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one process does, besides its role, which is the module it runs."""

    name: str
    store: str
    folder: str
    seed: int = 0
    source: str = ""
    """Where a relay takes its jobs from, to pass them on to the store."""
    variant: str = ""
    """The name of a control or of a deviation, see `variants`; empty is the store as it is."""
    jobs: int = 0
    """How many jobs a producer makes before it ends; 0 is no limit."""
    pause: float = 0.01
    """The longest rest of a producer between two calls."""
    concurrency: int = 4
    grace: float = 5.0
    processes: int = 2
    parent: str = ""
    """The supervisor that started this worker."""
    maintenance: bool = True
    stays: bool = False
    """The control of a killed supervisor: do not stop with the parent."""
    crash: str = ""
    """Where a crasher kills itself, as `file.operation.number`."""
    early: bool = False
    """Count to the crash point from the opening of the store on, not from the first job on."""

    def command(self, role: str) -> list[str]:
        """The command line of a process that does this."""
        text = msgspec.json.encode(self).decode()
        return [sys.executable, "-m", f"{__package__}.{role}", text]

    def environment(self) -> dict[str, str]:
        """Its environment: it finds this package wherever it is started."""
        paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
        return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def from_command_line() -> Assignment:
    """The assignment of this process."""
    return msgspec.json.decode(sys.argv[1], type=Assignment)


def policy(lease: float) -> Policy:
    """Short leases, many attempts, quick retries: faults show fast."""
    return Policy(lease=lease, max_attempts=MAX_ATTEMPTS, backoff=retry.fixed(0.02))


class Post:
    """What every role needs: its history, its queue, and an event that asks it to stop."""

    def __init__(self, assignment: Assignment) -> None:
        self.assignment = assignment
        self.history = History(Path(assignment.folder), assignment.name)
        store: Store = store_from_url(assignment.store)
        if assignment.variant:
            store = VARIANTS[assignment.variant](store)
        self.queues = Queues(RecordingStore(store, self.history))
        self.queue: Queue[Any, Any] = self.queues[QUEUE]
        self.stopping = threading.Event()

    def open(self) -> None:
        """Open the store; from now on SIGTERM, and the parent's end, ask to stop."""
        self.say("started", str(os.getpid()))
        self.queues.store.open()
        hear_signals(lambda _number: self.stopping.set())
        if not self.assignment.stays:
            stop_with_parent(self.stopping.set)

    def wait_until_stopped(self) -> None:
        """Wait until somebody asks to stop."""
        while not self.stopping.wait(0.5):
            pass  # a signal may have come to another thread, see `hear_signals`

    def say(self, act: str, note: str = "") -> None:
        """Tell the harness, by the history, that this process has come so far."""
        self.history.write(
            Step(
                what=What.PROCESS,
                phase=Phase.OK,
                act=act,
                id=self.assignment.parent,
                worker=self.assignment.name,
                note=note,
            )
        )

    def close(self) -> None:
        """End in good order."""
        self.queues.close()
        self.say("stopped")
        self.history.close()
