"""A supervisor and processes that misbehave: they are replaced, and they cannot hold it up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ackline
from ackline import State
from ackline.core.events import Act

LONGEST = 20.0
"""Seconds that a supervisor lives at most."""

SUPERVISE = """
import logging, sys, time
import ackline
from ackline import StoreUnavailable
from ackline.worker.processes import supervisor

logging.basicConfig(level=logging.INFO, format="%(message)s")
supervisor.PING_INTERVAL, supervisor.PING_TIMEOUT = 0.05, 0.5
supervisor.KILL_AFTER_GRACE = supervisor.SECOND_SIGNAL_TIMEOUT = 0.3
folder, conduct, grace, store = sys.argv[1:]
queue = ackline.open(f"sqlite:///{folder}/jobs.db")["work"]

class Queues:
    def __iter__(self):
        if store == "away":
            raise StoreUnavailable("nobody is there")
        if store == "stalled":
            time.sleep(30)
        yield queue

def command(id):
    return [sys.executable, "-c", conduct, id, folder]

supervisor.Supervisor(Queues(), command, processes=1, grace=float(grace)).run()
"""

CHILD = """
import ctypes, os, pathlib, signal, sys, threading, time
import ackline
from ackline.worker.processes import child_process

child_process.PING_INTERVAL = 0.05
id, folder = sys.argv[1:]
first = not pathlib.Path(folder, "started").exists()
pathlib.Path(folder, "started").touch()
queue = ackline.open(f"sqlite:///{folder}/jobs.db")["work"]
stopping = threading.Event()

def claim():
    jobs = queue.claim(1, lease=600, worker=id)
    print(os.getpid(), "claimed", len(jobs), file=sys.stderr, flush=True)
"""

SEND_PINGS = "child_process.stop_with_parent(stopping.set)\n"
EXIT_ON_SIGTERM = "signal.signal(signal.SIGTERM, lambda *_: os._exit(0))\n"
LIVE = "claim()\nstopping.wait(30)\n"

HEALTHY = CHILD + SEND_PINGS + EXIT_ON_SIGTERM + LIVE
SENDS_NO_PINGS = CHILD + EXIT_ON_SIGTERM + LIVE
IGNORES_SIGTERM = CHILD + SEND_PINGS + "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + LIVE
# In native code that keeps the interpreter's lock, as a regular expression may.
HANGS_ONCE = (
    CHILD + SEND_PINGS + EXIT_ON_SIGTERM + "claim()\ntime.sleep(0.3)\n"
    "if first: ctypes.PyDLL(None).sleep(30)\nstopping.wait(30)\n"
)
KILLS_ITSELF_ONCE = (
    CHILD + SEND_PINGS + EXIT_ON_SIGTERM + "claim()\n"
    "if first: os.kill(os.getpid(), signal.SIGRTMIN + 2)\nstopping.wait(30)\n"
)


class Supervised:
    """A supervisor of one process, in a process of its own."""

    def __init__(self, folder: Path, script: str, grace: float, store: str) -> None:
        program = [sys.executable, "-c", SUPERVISE, str(folder), script, str(grace), store]
        self.process = subprocess.Popen(program, stderr=subprocess.PIPE, text=True)
        # What never comes must not be waited for: then its standard error ends.
        self.limit = threading.Timer(LONGEST, self.process.kill)
        self.limit.start()

    def wait_for(self, words: str) -> str:
        """The next line that has these words."""
        assert self.process.stderr is not None
        recorded = []
        for line in self.process.stderr:
            recorded.append(line)
            if words in line:
                return line
        raise AssertionError(f"{words!r} never came: {''.join(recorded)}")

    def child(self) -> int:
        """The process that claims next."""
        return int(self.wait_for("claimed").split()[0])

    def stop(self, signals: int = 1, within: float = 5.0) -> str:
        """What it says until its end."""
        for _ in range(signals):
            self.process.send_signal(signal.SIGTERM)
            time.sleep(0.05)  # two signals of one sort at once are one
        _, arguments = self.process.communicate(timeout=within)
        assert self.process.returncode == 0, arguments
        return str(arguments)


Supervise = Callable[..., Supervised]


@pytest.fixture
def supervise(tmp_path: Path) -> Iterator[Supervise]:
    started: list[Supervised] = []

    def begin(script: str, grace: float = 5.0, store: str = "") -> Supervised:
        started.append(Supervised(tmp_path, script, grace, store))
        return started[-1]

    yield begin
    for one in started:
        one.limit.cancel()
        # Its own process ends when the line between them does.
        one.process.kill()
        one.process.communicate()


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[ackline.Queue[Any, Any]]:
    with ackline.open(f"sqlite:///{tmp_path}/jobs.db") as queues:
        yield queues["work"]


def has_exited(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


# --- processes that hang ---


def test_a_hung_process_is_restarted_and_its_jobs_are_taken_back(supervise, queue):
    queue.enqueue(1, id="a", backoff=[0])
    supervisor = supervise(HANGS_ONCE)
    hung = supervisor.child()
    assert f"{hung} did not respond for 0.5 s" in supervisor.wait_for("killing it")
    assert supervisor.child() != hung
    assert has_exited(hung)
    freed = next(event for event in queue.events(follow_for=5) if event.act is Act.EXPIRE)
    assert "did not respond" in freed.note
    assert "did not respond" not in supervisor.stop()


@pytest.mark.parametrize("script", [HEALTHY, SENDS_NO_PINGS], ids=["speaks", "never spoke"])
def test_control_a_healthy_process_is_left_alone(supervise, script):
    """One that never gave a sign has been started by a command that knows nothing of them."""
    supervisor = supervise(script)
    child = supervisor.child()
    time.sleep(1)
    assert not has_exited(child)
    assert "killed" not in supervisor.stop()
    assert has_exited(child)


def test_a_suspended_machine_is_not_mistaken_for_a_hung_process(supervise):
    supervisor = supervise(HEALTHY)
    both = (supervisor.child(), supervisor.process.pid)
    time.sleep(0.3)
    for pid in both:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(1)
    for pid in reversed(both):
        os.kill(pid, signal.SIGCONT)
        time.sleep(0.1)
    assert "killed" not in supervisor.stop()


def test_control_a_process_suspended_alone_is_killed(supervise):
    supervisor = supervise(HEALTHY)
    child = supervisor.child()
    time.sleep(0.3)
    os.kill(child, signal.SIGSTOP)
    assert str(child) in supervisor.wait_for("did not respond")
    assert supervisor.child() != child
    supervisor.stop()


# --- processes that do not stop ---


def test_a_process_that_does_not_stop_is_killed_after_its_grace_period(supervise, queue):
    queue.enqueue(1, id="a")
    supervisor = supervise(IGNORES_SIGTERM, grace=0.1)
    child = supervisor.child()
    assert f"{child} did not stop in time: killing it" in supervisor.stop()
    assert has_exited(child)
    assert queue.status("a").state is not State.PROCESSING


def test_control_it_is_not_killed_within_its_grace_period(supervise):
    supervisor = supervise(IGNORES_SIGTERM, grace=60)
    supervisor.child()
    with pytest.raises(subprocess.TimeoutExpired):
        supervisor.stop(within=1)


def test_a_second_signal_does_not_wait_for_the_grace_period(supervise):
    supervisor = supervise(IGNORES_SIGTERM, grace=60)
    child = supervisor.child()
    assert "did not stop in time" in supervisor.stop(signals=2)
    assert has_exited(child)


def test_a_second_signal_does_not_wait_for_a_store_that_does_not_respond(supervise):
    supervisor = supervise(HEALTHY, grace=60, store="stalled")
    child = supervisor.child()
    assert "may still be leased" in supervisor.stop(signals=2)
    assert has_exited(child)


# --- processes that die ---


def test_a_real_time_signal_ends_one_process_and_not_the_supervisor(supervise, queue):
    queue.enqueue(1, id="a")
    supervisor = supervise(KILLS_ITSELF_ONCE)
    dead = supervisor.child()
    number = signal.SIGRTMIN + 2
    assert f"{dead} killed by signal {number}" in supervisor.wait_for("killed by")
    assert supervisor.child() != dead
    freed = next(event for event in queue.events(follow_for=5) if event.act is Act.EXPIRE)
    assert f"worker process killed by signal {number}" in freed.note
    supervisor.stop()


def test_an_unavailable_store_does_not_delay_a_restart(supervise):
    supervisor = supervise(KILLS_ITSELF_ONCE, store="away")
    dead = supervisor.child()
    supervisor.wait_for("could not take back the jobs")
    assert supervisor.child() != dead
    supervisor.stop()
