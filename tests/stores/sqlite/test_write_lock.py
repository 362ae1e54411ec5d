"""The write lock: only fairness depends on it, not correctness."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import threading
from pathlib import Path

import pytest
from tests.stores.sqlite.conftest import QUEUE, drafts
from tests.waiting import until

from ackline.stores.sqlite.io import writer as writer_module
from ackline.stores.sqlite.io.locks import WriteLock


@pytest.fixture
def path(path):
    """An empty database: only an existing one can be locked."""
    Path(path).touch()
    return path


@pytest.fixture
def holder(path):
    """Another process's lock object, which has the lock."""
    turn = WriteLock(path)
    assert turn.acquire(1)
    yield turn
    turn.close()


def free(path) -> bool:
    turn = WriteLock(path)
    try:
        return turn.acquire(1)
    finally:
        turn.close()


def files(path: str) -> int:
    """How many times this process has a file open."""
    found = 0
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # closed meanwhile
            found += os.readlink(f"/proc/self/fd/{number}") == os.path.realpath(path)
    return found


@pytest.mark.parametrize("mode", [0o600, 0o660, 0o666])
def test_whoever_may_use_the_database_may_wait_for_the_lock(path, mode):
    os.chmod(path, mode)
    before = os.umask(0o077)
    try:
        turn = WriteLock(path)
        assert turn.acquire(1)
    finally:
        os.umask(before)

    assert stat.S_IMODE(os.stat(f"{path}-lock").st_mode) == mode
    turn.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_a_lock_file_of_somebody_else_need_only_be_readable(path, holder):
    os.chmod(f"{path}-lock", 0o644)
    holder.release()
    for folder in Path(path).parents:
        if "pytest" in str(folder):
            os.chmod(folder, 0o755)  # pytest captures them
    child = os.fork()
    if child == 0:
        try:
            os.setuid(65534)
            os._exit(0 if WriteLock(path).acquire(1) else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_waiter_gets_the_lock_in_the_end(path, holder):
    turn = WriteLock(path)
    assert not turn.acquire(0.01)
    threading.Timer(0.05, holder.release).start()
    assert turn.acquire(100)
    turn.release()
    turn.close()
    assert free(path)


def test_a_write_goes_on_without_the_lock(store, writer, holder, monkeypatch):
    monkeypatch.setattr(writer_module, "BUSY_TIMEOUT", 0.2)
    writer.set_busy_timeout(200)
    assert store.enqueue(QUEUE, drafts(1))[0].accepted


def test_a_wait_that_times_out_leaves_nothing_behind(store, path, holder, monkeypatch):
    monkeypatch.setattr(writer_module, "BUSY_TIMEOUT", 0.01)
    store.enqueue(QUEUE, drafts(1))
    threads, before = len(os.listdir("/proc/self/task")), files(f"{path}-lock")

    for n in range(1, 50):
        assert store.enqueue(QUEUE, drafts(1, n))[0].accepted

    assert len(os.listdir("/proc/self/task")) <= threads
    assert files(f"{path}-lock") == before
    holder.close()
    assert free(path)


def test_an_interrupted_wait_does_not_acquire_the_lock_later(path, holder):
    turn = WriteLock(path)
    previous = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(KeyboardInterrupt):
            turn.acquire(10)
    finally:
        signal.signal(signal.SIGALRM, previous)

    holder.release()

    assert free(path)
    turn.close()


def test_closing_while_a_thread_waits(path, holder):
    before = files(f"{path}-lock")
    turn = WriteLock(path)
    assert not turn.acquire(0.01)
    turn.close()
    assert files(f"{path}-lock") == before + 1

    holder.release()

    until(lambda: files(f"{path}-lock") == before)
    assert free(path)


def test_a_deleted_lock_leaves_no_file_open(path):
    turn = WriteLock(path)
    assert turn.acquire(1)

    del turn

    assert files(f"{path}-lock") == 0
    assert free(path)
