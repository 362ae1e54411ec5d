from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ackline.job import Draft, QueueKey
from ackline.stores.base import ClaimRequest
from ackline.stores.sqlite import SqliteStore

QUEUE = QueueKey("default", "mail")
REQUEST = ClaimRequest(worker="w", limit=100, lease=30.0)


def drafts(count: int, start: int = 0, size: int = 10) -> list[Draft]:
    return [Draft(f"id{n}", "mail", b"x" * size) for n in range(start, start + count)]


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "jobs.db")


@pytest.fixture
def store(path):
    store = SqliteStore(path, "normal")
    store.open()
    yield store
    store.close()


PRELUDE = """
import sys
from ackline.job import Draft, QueueKey
from ackline.stores.base import ClaimRequest
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
