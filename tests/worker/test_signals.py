"""A signal interrupts the main thread wherever it is, also while that holds a lock."""

import subprocess
import sys

import pytest

HEARD = """
from ackline.worker.signals import hear_signals
hear_signals(lambda number: stopping.set())
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


def run(install: str, patience: float) -> str:
    program = [sys.executable, "-c", INTERRUPTED.format(install=install)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=patience, check=True)
    return done.stdout.strip()


def test_it_is_heard_all_the_same():
    assert run(HEARD, patience=30) == "True"


def test_control_a_handler_that_takes_the_lock_hangs():
    with pytest.raises(subprocess.TimeoutExpired):
        run(CONTROL, patience=1)
