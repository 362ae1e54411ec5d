"""Forks: a child opens the store again, and neither it nor its parent disturbs the other."""

from __future__ import annotations

import os
import signal
import threading

import pytest
from tests.stores.sqlite.conftest import QUEUE, drafts

from ackline.core.errors import StoreUnavailable
from ackline.core.job import Draft, State
from ackline.stores.sqlite import SqliteStore
from ackline.stores.sqlite.io import engine as engine_module
from ackline.stores.sqlite.io.locks import WriteLock

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


def fork_and(work) -> int:
    """Run something in a forked child; returns its process id."""
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        code = 1
        try:
            code = work() or 0
        finally:
            os._exit(code)
    return child


def code_of(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def accepted(store, id) -> bool:
    return bool(store.enqueue(QUEUE, [Draft(id, "mail", b"")])[0].accepted)


def test_a_forked_child_must_open_again(store):
    store.enqueue(QUEUE, drafts(1))

    def work():
        with pytest.raises(StoreUnavailable, match="open"):
            store.enqueue(QUEUE, drafts(1))
        store.close()
        store.open()
        assert accepted(store, "child")
        store.close()

    assert code_of(fork_and(work)) == 0
    assert store.enqueue(QUEUE, drafts(2))[1].state is State.QUEUED
    assert store.get(QUEUE, ["child"]) != [None]


def test_forks_while_others_write_and_read(store):
    stop, errors = threading.Event(), []

    def repeat(call):
        while not stop.is_set():
            try:
                call()
            except Exception as error:
                errors.append(error)

    calls = [lambda: store.enqueue(QUEUE, drafts(1)), lambda: store.describe("default")]
    threads = [threading.Thread(target=repeat, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()

    def work(n):
        store.open()
        assert accepted(store, f"child{n}")

    codes = [code_of(fork_and(lambda n=n: work(n))) for n in range(5)]
    stop.set()
    for thread in threads:
        thread.join(10)

    assert codes == [0] * 5
    assert errors == []
    assert None not in store.get(QUEUE, [f"child{n}" for n in range(5)])


def test_what_a_child_writes_outlives_the_parents_connections(store, path):
    ready, done = os.pipe(), os.pipe()

    def work():
        store.open()
        assert accepted(store, "early")
        os.write(ready[1], b"x")
        os.read(done[0], 1)
        assert accepted(store, "late")

    child = fork_and(work)
    os.read(ready[0], 1)
    store.close()
    os.write(done[1], b"x")
    assert code_of(child) == 0
    for end in (*ready, *done):
        os.close(end)

    again = SqliteStore(path)
    again.open()
    assert None not in again.get(QUEUE, ["early", "late"])
    again.close()


def test_listeners_are_notified_after_a_fork(store, engine):
    with store.listen([QUEUE], "changes") as listener:
        before = engine.version()
        assert code_of(fork_and(lambda: 0)) == 0
        assert engine.version() != before
        store.enqueue(QUEUE, drafts(1))
        assert listener.wait(10)


def test_forked_in_the_middle_of_its_own_write(engine, monkeypatch):
    monkeypatch.setattr(engine_module, "FORK_TIMEOUT", 0.05)

    def work():
        with pytest.raises(StoreUnavailable, match="fork"):
            engine.open()

    assert engine.write(lambda tx: code_of(fork_and(work))) == 0
    with engine.read():
        assert code_of(fork_and(work)) == 0
    assert engine.write(lambda tx: "parent") == "parent"


def test_an_idle_child_does_not_keep_the_write_lock_of_its_killed_parent(store, path, start):
    parent = start(
        "import os, signal, time\n"
        "from ackline.stores.sqlite.io.engine import Engine\n"
        "engine = Engine(sys.argv[1], 'full', print)\n"
        "engine.open()\n"
        "engine.write(lambda tx: None)\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    time.sleep(30)\n"
        "    os._exit(0)\n"
        "say(child)\n"
        "engine.write(lambda tx: os.kill(os.getpid(), signal.SIGKILL))\n"
    )
    child = int(parent.stdout.readline())
    parent.wait()
    try:
        turn = WriteLock(path)
        assert turn.acquire(0.5)
        turn.close()
        assert accepted(store, "next")
    finally:
        os.kill(child, signal.SIGKILL)
