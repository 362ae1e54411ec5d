"""The write-ahead log stays, whatever else a process does with the open file."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from types import SimpleNamespace

import apsw
import pytest
from tests.stores.sqlite.conftest import QUEUE, drafts

from ackline.core.errors import StoreUnavailable
from ackline.stores.sqlite import SqliteStore
from ackline.stores.sqlite.io import locks

COUNT_JOBS = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], timeout=0.1)
print(connection.execute("SELECT count(*) FROM job").fetchone()[0])
connection.close()
"""


def read_with_another_library(path):
    connection = sqlite3.connect(path)
    connection.execute("SELECT count(*) FROM job").fetchone()
    connection.close()


def read_in_another_process(path):
    return subprocess.run(
        [sys.executable, "-c", COUNT_JOBS, path], check=False, capture_output=True
    )


def copy_then_read_in_another_process(path):
    shutil.copy(path, f"{path}.copy")
    read_in_another_process(path)


LOOKS = [read_with_another_library, copy_then_read_in_another_process]


def as_after_a_crash(path, folder):
    """A store on the files that a process would leave if it were killed now."""
    for suffix in ("", "-wal"):
        if os.path.exists(path + suffix):
            shutil.copy(path + suffix, folder / f"crashed.db{suffix}")
    store = SqliteStore(str(folder / "crashed.db"))
    store.open()
    return store


@pytest.mark.parametrize("look", LOOKS)
def test_accepted_jobs_survive_another_close_of_the_file(store, path, tmp_path, look):
    store.enqueue(QUEUE, drafts(1))
    look(path)

    assert store.enqueue(QUEUE, drafts(5))[4].accepted

    crashed = as_after_a_crash(path, tmp_path)
    assert None not in crashed.get(QUEUE, [f"id{n}" for n in range(5)])
    crashed.close()


@pytest.mark.parametrize("look", LOOKS)
def test_jobs_accepted_by_another_process_meanwhile_survive(store, path, start, look):
    store.enqueue(QUEUE, drafts(1))
    look(path)
    store.enqueue(QUEUE, drafts(1, start=1))
    other = start(
        "for n in range(2, 50): store.enqueue(queue, [Draft(f'id{n}', 'mail', b'')])\n"
        "store.close()\nsay('done')\n"
    )
    assert other.stdout.readline() == "done\n"
    store.enqueue(QUEUE, drafts(1, start=50))
    store.close()

    store.open()
    assert None not in store.get(QUEUE, [f"id{n}" for n in range(51)])
    with contextlib.closing(apsw.Connection(path)) as connection:
        assert connection.pragma("integrity_check") == "ok"


@pytest.mark.parametrize("look", LOOKS)
def test_without_such_locks_writes_are_refused(path, tmp_path, monkeypatch, look):
    monkeypatch.setattr(locks, "sys", SimpleNamespace(platform="darwin"))
    store = SqliteStore(path)
    store.open()
    store.enqueue(QUEUE, drafts(1))
    look(path)

    with pytest.raises(StoreUnavailable, match=r"jobs\.db-wal"):
        store.enqueue(QUEUE, drafts(2))

    store.close()
    store.open()
    receipts = store.enqueue(QUEUE, drafts(2))
    assert [receipt.accepted for receipt in receipts] == [False, True]
    store.close()


def test_the_index_of_the_log_is_not_rebuilt_while_it_is_in_use(start, path):
    writer = start(
        "import sqlite3, subprocess\n"
        "for n in range(300): store.enqueue(queue, [Draft(f'id{n}', 'mail', b'x' * 900)])\n"
        "look = sqlite3.connect(sys.argv[1])\n"
        "look.execute('SELECT count(*) FROM job').fetchone()\n"
        "look.close()\n"
        "def write(tx):\n"
        "    tx.execute('UPDATE job SET priority = 1')\n"
        f"    look = [sys.executable, '-c', {COUNT_JOBS!r}, sys.argv[1]]\n"
        "    say(subprocess.run(look, text=True, capture_output=True).stdout.strip())\n"
        "    tx.execute('UPDATE job SET priority = 2')\n"
        "from ackline.stores.sqlite.io.engine import Engine\n"
        "engine = Engine(sys.argv[1], 'full', print)\n"
        "engine.open()\n"
        "engine.write(write)\n"
        "say('written')\n"
    )

    assert writer.stdout.readline() == "300\n"
    assert writer.stdout.readline() == "written\n"


def test_the_last_store_of_a_process_removes_the_log(path):
    first, second = SqliteStore(path), SqliteStore(path)
    first.open()
    second.open()

    first.close()
    read_with_another_library(path)
    assert os.path.exists(f"{path}-wal")

    second.close()
    assert not os.path.exists(f"{path}-wal")


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_after_a_fork_a_process_that_only_reads_keeps_the_log_too(store, path):
    store.enqueue(QUEUE, drafts(1))
    child = os.fork()
    if child == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)

    store.get(QUEUE, ["id0"])
    read_with_another_library(path)

    assert os.path.exists(f"{path}-wal")


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_nothing_stays_open(path):
    before = open_files()
    for _ in range(3):
        store = SqliteStore(path)
        store.open()
        store.enqueue(QUEUE, drafts(1))
        store.close()

    assert open_files() == before
