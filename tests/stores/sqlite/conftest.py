from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from pathlib import Path

import apsw
import pytest
from tests.waiting import until

from ackline.core.job import Draft, QueueKey
from ackline.stores.contract import ClaimRequest
from ackline.stores.sqlite import SqliteStore
from ackline.stores.sqlite.io.engine import Engine
from ackline.stores.sqlite.io.group_commit import GroupCommit

QUEUE = QueueKey("default", "mail")
REQUEST = ClaimRequest(worker="w", limit=100, lease=30.0)


def drafts(count: int, start: int = 0, size: int = 10) -> list[Draft]:
    return [Draft(f"id{n}", "mail", b"x" * size) for n in range(start, start + count)]


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "jobs.db")


@pytest.fixture
def connections():
    """Every connection that apsw opens from now on."""
    opened: list[apsw.Connection] = []
    apsw.connection_hooks.append(opened.append)
    yield opened
    apsw.connection_hooks.remove(opened.append)


def still_open(connections: list[apsw.Connection]) -> list[apsw.Connection]:
    found = []
    for connection in connections:
        with contextlib.suppress(apsw.ConnectionClosedError):
            connection.pragma("query_only")
            found.append(connection)
    return found


@pytest.fixture
def store(path, connections):
    store = SqliteStore(path, "normal")
    store.open()
    yield store
    store.close()


@pytest.fixture
def writer(store, connections):
    """The writer of the store."""
    [writer] = still_open(connections)
    return writer


@pytest.fixture
def engine(path):
    """Writes the same file, and notifies nobody."""
    engine = Engine(path, "normal", lambda _wakeups: None)
    engine.open()
    yield engine
    engine.close()


class OperationGroup:
    """Operations that wait while another one is kept open, so that they form one group."""

    def __init__(self, commit):
        self.group_commit = GroupCommit(commit)
        self.inside, self.go_on = threading.Event(), threading.Event()
        self.answers, self.threads = {}, []
        self._start("first", self._hold)
        assert self.inside.wait(10)

    def _hold(self, _tx):
        self.inside.set()
        return self.go_on.wait(10)

    def _start(self, name, operation):
        def run():
            try:
                self.answers[name] = self.group_commit.run(operation)
            except BaseException as error:
                self.answers[name] = error

        self.threads.append(threading.Thread(target=run))
        self.threads[-1].start()

    def add(self, name, operation):
        self._start(name, operation)
        until(lambda: self.group_commit.waiting == len(self.threads) - 1)

    def finish(self):
        self.go_on.set()
        for thread in self.threads:
            thread.join(10)
        return self.answers


PRELUDE = """
import sys
from ackline.core.job import Draft, QueueKey
from ackline.stores.contract import ClaimRequest
from ackline.stores.sqlite import SqliteStore
store = SqliteStore(sys.argv[1])
store.open()
queue = QueueKey("default", "mail")
def say(*words): print(*words, flush=True)
"""


@pytest.fixture
def start(path):
    """Start another process on the same file; it has `store`, `queue` and `say`."""
    children: list[subprocess.Popen[str]] = []

    def run(code: str) -> subprocess.Popen[str]:
        child = subprocess.Popen(
            [sys.executable, "-c", PRELUDE + code, path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        children.append(child)
        return child

    yield run
    for child in children:
        child.kill()
        child.communicate()
