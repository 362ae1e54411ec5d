"""The turn to write: only fairness rests on it."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time

import pytest
from tests.stores.sqlite.conftest import QUEUE, drafts

from ackline.stores.sqlite import engine as engine_module
from ackline.stores.sqlite.turn import Turn


@pytest.fixture
def holder(path):
    """Another one whose turn it is."""
    turn = Turn(f"{path}-lock")
    assert turn.take(1)
    yield turn
    turn.close()


def free(path) -> bool:
    turn = Turn(f"{path}-lock")
    try:
        return turn.take(1)
    finally:
        turn.close()


def files(path: str) -> int:
    """How many times this process has a file open."""
    found = 0
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # closed meanwhile
            found += os.readlink(f"/proc/self/fd/{number}") == os.path.realpath(path)
    return found


def test_who_waits_gets_it_in_the_end(path, holder):
    turn = Turn(f"{path}-lock")
    assert not turn.take(0.01)
    threading.Timer(0.05, holder.leave).start()
    assert turn.take(100)
    turn.leave()
    turn.close()
    assert free(path)


def test_without_a_turn_a_write_goes_on(store, holder, monkeypatch):
    monkeypatch.setattr(engine_module, "BUSY_SECONDS", 0.2)
    store._engine._writer.set_busy_timeout(200)
    assert store.enqueue(QUEUE, drafts(1))[0].accepted


def test_waiting_in_vain_leaves_nothing_behind(store, path, holder, monkeypatch):
    monkeypatch.setattr(engine_module, "BUSY_SECONDS", 0.01)
    store.enqueue(QUEUE, drafts(1))
    threads, before = len(os.listdir("/proc/self/task")), files(f"{path}-lock")

    for n in range(1, 50):
        assert store.enqueue(QUEUE, drafts(1, n))[0].accepted

    assert len(os.listdir("/proc/self/task")) <= threads
    assert files(f"{path}-lock") == before
    holder.close()
    assert free(path)


def test_an_interrupted_wait_does_not_take_the_turn_later(path, holder):
    turn = Turn(f"{path}-lock")
    previous = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(KeyboardInterrupt):
            turn.take(10)
    finally:
        signal.signal(signal.SIGALRM, previous)

    holder.leave()

    assert free(path)
    turn.close()


def test_closed_while_one_stands_in_line(path, holder):
    before = files(f"{path}-lock")
    turn = Turn(f"{path}-lock")
    assert not turn.take(0.01)
    turn.close()
    assert files(f"{path}-lock") == before + 1

    holder.leave()

    end = time.monotonic() + 5
    while files(f"{path}-lock") != before and time.monotonic() < end:
        time.sleep(0.01)
    assert files(f"{path}-lock") == before
    assert free(path)
