"""A signal interrupts the main thread wherever it is, also while that holds a lock."""

import subprocess
import sys

import pytest

PROGRAM = """
from ackline.worker.processes.stop_signals import handle_stop_signals
handle_stop_signals(lambda number: stopping.set())
"""

CONTROL = """
signal.signal(signal.SIGTERM, lambda *_: stopping.set())
"""

INTERRUPTED = """
import signal, threading
stopping = threading.Event()
{install}
with stopping._cond:  # as within `wait`, for a moment
    signal.raise_signal(signal.SIGTERM)
print(stopping.wait(10))
"""


STARTED = """
import queue, signal
from ackline.worker.processes.stop_signals import handle_stop_signals
signal.signal(signal.SIGHUP, signal.{how})
received = queue.SimpleQueue()
restore = handle_stop_signals(received.put)
signal.raise_signal(signal.SIGHUP)
signal.raise_signal(signal.SIGTERM)
first = received.get(timeout=10)
restore()
print(signal.Signals(first).name, signal.getsignal(signal.SIGHUP).name)
"""


def run_program(program: str, timeout: float) -> str:
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=True)
    return done.stdout.strip()


def run(install: str, timeout: float) -> str:
    return run_program(INTERRUPTED.format(install=install), timeout)


def test_a_signal_during_a_lock_is_handled():
    assert run(PROGRAM, timeout=30) == "True"


def test_control_a_signal_handler_that_acquires_the_lock_hangs():
    with pytest.raises(subprocess.TimeoutExpired):
        run(CONTROL, timeout=1)


def test_an_ignored_signal_stays_ignored():
    """As with `nohup`: the terminal is closed, and the worker continues."""
    assert run_program(STARTED.format(how="SIG_IGN"), 30) == "SIGTERM SIG_IGN"


def test_control_a_signal_that_is_not_ignored_is_handled():
    assert run_program(STARTED.format(how="SIG_DFL"), 30) == "SIGHUP SIG_DFL"
