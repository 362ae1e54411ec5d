"""Opening a file: what is accepted, what is refused, and with which message."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import apsw
import pytest
from tests.stores.sqlite.conftest import QUEUE, drafts

from ackline.core.errors import ConfigError, StoreMismatch, StoreUnavailable
from ackline.stores.sqlite import SqliteStore, from_url
from ackline.stores.sqlite.io import writer
from ackline.stores.sqlite.io.migrate import APPLICATION_ID, newest_schema


def test_a_new_file_gets_the_newest_schema(store, path):
    info = store.info()

    assert info.schema == newest_schema()
    assert apsw.Connection(path).pragma("application_id") == APPLICATION_ID


def test_a_file_of_another_program_is_refused_and_not_touched(path):
    with apsw.Connection(path) as other:
        other.execute("CREATE TABLE theirs (x)")
    before = Path(path).read_bytes()

    with pytest.raises(StoreMismatch, match="another program"):
        SqliteStore(path).open()

    assert Path(path).read_bytes() == before


def test_a_newer_schema_is_refused(store, path):
    store.close()
    with apsw.Connection(path) as future:
        future.pragma("user_version", newest_schema() + 1)

    with pytest.raises(StoreMismatch, match="newer"):
        SqliteStore(path).open()


def test_a_file_that_is_no_database_is_refused_and_not_touched(path):
    Path(path).write_text("my diary, " * 500)

    with pytest.raises(StoreMismatch, match="not a SQLite"):
        SqliteStore(path).open()

    assert Path(path).read_text() == "my diary, " * 500


def test_a_missing_directory_is_named(tmp_path):
    with pytest.raises(StoreUnavailable, match="absent"):
        SqliteStore(str(tmp_path / "absent" / "jobs.db")).open()


def test_a_directory_is_no_file(tmp_path):
    with pytest.raises(StoreUnavailable, match="directory"):
        SqliteStore(str(tmp_path)).open()


@pytest.mark.parametrize("locked", ["folder", "file"])
def test_a_file_that_cannot_be_written_raises_read_only(locked):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "jobs.db")
        store = SqliteStore(path)
        store.open()
        store.close()
        Path(path).chmod(0o444)
        Path(folder).chmod(0o555 if locked == "folder" else 0o777)

        refusal = refusal_in_child(path)
        Path(folder).chmod(0o777)

    assert refusal.startswith("StoreReadOnly:")
    assert "may not write" in refusal


def refusal_in_child(path: str) -> str:
    """The error for an ordinary user; root may write everywhere."""
    inner, outer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setuid(65534)
            SqliteStore(path).open()
        except BaseException as error:
            os.write(outer, f"{type(error).__name__}: {error}".encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(outer)
    with os.fdopen(inner) as pipe:
        return pipe.read()


@pytest.mark.parametrize(("durability", "synchronous"), [("full", 2), ("normal", 1)])
def test_the_requested_durability_is_applied(path, connections, durability, synchronous):
    store = from_url(f"sqlite:///{path}?durability={durability}")
    store.open()

    [connection] = connections
    assert connection.pragma("synchronous") == synchronous
    assert connection.pragma("journal_mode") == "wal"
    assert connection.pragma("page_size") == 4096
    assert store.info().durability.startswith(durability)
    store.close()


def test_urls(tmp_path, monkeypatch):
    (tmp_path / "own").mkdir()
    monkeypatch.chdir(tmp_path)

    assert opened_at("sqlite:///jobs.db") == str(tmp_path / "jobs.db")
    assert opened_at(f"sqlite:///{tmp_path}/own/jobs.db") == f"{tmp_path}/own/jobs.db"
    assert opened_at("sqlite:///a%20b.db") == str(tmp_path / "a b.db")


def opened_at(url: str) -> str:
    store = from_url(url)
    store.open()
    try:
        return store.info().location
    finally:
        store.close()


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("sqlite:///jobs.db?durabilty=full", "Known: durability"),
        ("sqlite:///jobs.db?durability=some", "full or normal"),
        ("sqlite://", "names no file"),
        ("sqlite://jobs.db", "sqlite:///jobs.db"),
        ("sqlite:///:memory:", "write memory://"),
        ("sqlite:///jobs/", "names a directory.* jobs/jobs.db"),
        ("sqlite:////", "names a directory.* /jobs.db"),
    ],
)
def test_invalid_urls(url, words):
    with pytest.raises(ConfigError, match=words):
        from_url(url)


@pytest.mark.parametrize("replaced", [False, True])
def test_a_file_that_was_deleted_or_replaced_takes_no_jobs(tmp_path, replaced, monkeypatch):
    monkeypatch.setattr(writer, "FILE_CHECK_INTERVAL", 0.0)
    path = tmp_path / "jobs.db"
    store = SqliteStore(str(path))
    store.open()
    store.enqueue(QUEUE, drafts(1))
    for name in ("jobs.db", "jobs.db-wal", "jobs.db-shm"):
        (tmp_path / name).unlink()
    if replaced:
        other = SqliteStore(str(path))
        other.open()

    with pytest.raises(StoreUnavailable, match="deleted"):
        store.enqueue(QUEUE, drafts(2))

    store.close()
    store.open()
    assert store.enqueue(QUEUE, drafts(1))[0].accepted


def test_too_many_open_files_is_an_error(path):
    code = (
        "import os, resource, sys\n"
        "from ackline.core.errors import StoreUnavailable\n"
        "from ackline.stores.sqlite import SqliteStore\n"
        "store = SqliteStore(sys.argv[1])\n"
        "store.open()\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\n"
        "spare = [os.dup(0) for _ in range(64 - len(os.listdir('/proc/self/fd')) + 1)]\n"
        "for call in (SqliteStore(sys.argv[1]).open, lambda: store.listen([], 'ready')):\n"
        "    try:\n"
        "        call()\n"
        "    except StoreUnavailable as error:\n"
        "        print(error)\n"
    )
    messages = subprocess.run(
        [sys.executable, "-c", code, path], check=True, capture_output=True, text=True
    ).stdout.splitlines()

    assert len(messages) == 2
    for line in messages:
        assert re.search("too many files are open .* limit of this process is 64.*ulimit -n", line)
