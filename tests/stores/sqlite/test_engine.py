"""Transactions: group commit, isolated failures, a full disk, a bounded log."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import threading

import apsw
import pytest
from tests.stores.sqlite.conftest import QUEUE, REQUEST, OperationGroup, drafts, still_open

from ackline.core import lifecycle
from ackline.core.config import DEFAULTS, QueueSettings
from ackline.core.errors import StoreFull, StoreUnavailable
from ackline.core.job import Draft, Options, State
from ackline.core.limits import RESERVED_KEY_PREFIX
from ackline.stores.contract import ClaimRequest, Filter, KeyWrite
from ackline.stores.sqlite import claim, disk_space, operate
from ackline.stores.sqlite.io import connection as connection_module
from ackline.stores.sqlite.io import writer as writer_module
from ackline.stores.sqlite.io.engine import MAX_IDLE_CONNECTIONS, Engine, ReadConnections
from ackline.stores.sqlite.io.locks import WriteLock
from ackline.stores.sqlite.io.writer import Writer

PUT = "INSERT INTO key_value VALUES ('group', CAST(?1 || char(0, 1) AS BLOB), x'', 1)"


def count_commits(connection):
    commits = []

    def count() -> bool:
        commits.append(1)
        return False

    connection.set_commit_hook(count)
    return commits


@pytest.fixture
def another(store, path):
    """Writes the same file as the store."""
    writer = Writer(path, "normal")
    writer.open()
    yield writer
    writer.close()


@pytest.fixture
def group(another):
    group = OperationGroup(lambda operations: another.commit(operations)[0])
    yield group
    group.finish()


def test_waiting_callers_share_one_commit(store, another, group):
    commits = count_commits(another.connection)
    for n in range(20):
        group.add(n, lambda tx, n=n: tx.execute(PUT, (n,)) and n)

    answers = group.finish()

    assert [answers[n] for n in range(20)] == list(range(20))
    assert len(commits) == 2, "one of the operation held open, one of all the others"
    assert len(store.read_keys("group", (), 100)) == 20


def test_a_failing_operation_does_not_fail_the_others(store, group):
    def failing(tx):
        tx.execute(PUT, ("failing",))
        raise RuntimeError("mine alone")

    group.add("a", lambda tx: tx.execute(PUT, ("a",)) and "ok")
    group.add("failing", failing)
    group.add("b", lambda tx: tx.execute(PUT, ("b",)) and "ok")

    answers = group.finish()

    assert (answers["a"], answers["b"]) == ("ok", "ok")
    assert str(answers["failing"]) == "mine alone"
    assert len(store.read_keys("group", (), 100)) == 2


def test_enqueues_of_many_threads_all_arrive_once(store):
    def produce(start):
        for n in range(start, start + 50):
            store.enqueue(QUEUE, drafts(1, n // 2))

    threads = [threading.Thread(target=produce, args=(50 * n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)

    assert store.describe("default")[0].counts[State.QUEUED] == 200


# --- a full file ---


def fill(store):
    for n in itertools.count(1):
        store.enqueue(QUEUE, drafts(10, n * 10, size=500))


def test_without_even_the_reserve_nothing_is_half_done(store, writer):
    store.enqueue(QUEUE, drafts(1))
    writer.pragma("max_page_count", 100)
    with pytest.raises(StoreFull):
        fill(store)

    (info,) = store.describe("default")
    jobs = store.page(QUEUE, Filter(), None, 100_000).jobs
    assert len(jobs) == info.counts[State.QUEUED]
    assert len(jobs) % 10 == 1
    assert len(store.events(QUEUE, None, 100_000)) == len(jobs)


def test_a_nearly_full_disk_refuses_enqueue(store, monkeypatch):
    monkeypatch.setattr(disk_space, "DISK_RESERVE", 10**18)

    with pytest.raises(StoreFull, match="MB"):
        store.enqueue(QUEUE, drafts(1))


def test_free_space_is_not_checked_again_for_each_job(store, monkeypatch):
    asked = []
    free = disk_space.free_on_disk

    def ask(path):
        asked.append(path)
        return free(path)

    monkeypatch.setattr(disk_space, "free_on_disk", ask)
    monkeypatch.setattr(disk_space, "CHECK_INTERVAL", 100.0)
    for n in range(5):
        store.enqueue(QUEUE, drafts(1, n))

    assert len(asked) == 1


class TestNearlyFullDisk:
    """A purge frees pages inside the file, which does not shrink."""

    LARGE = b'"' + b"x" * 100_000 + b'"'

    @pytest.fixture
    def left(self, store, monkeypatch):
        """A disk with only 30 MB left, and 4 MB of jobs."""
        monkeypatch.setattr(disk_space, "CHECK_INTERVAL", 0.0)
        store.enqueue(QUEUE, [Draft(str(n), "k", self.LARGE) for n in range(40)])
        left = [disk_space.DISK_RESERVE - 2 * 1_048_576]
        monkeypatch.setattr(disk_space, "free_on_disk", lambda _path: left[0])
        with pytest.raises(StoreFull, match="purge"):
            store.enqueue(QUEUE, drafts(1))
        return left

    def test_only_enqueue_is_refused(self, store, left):
        claimed = store.claim(QUEUE, REQUEST).jobs
        done = store.apply(QUEUE, [lifecycle.complete(job, b"r", DEFAULTS) for job in claimed])

        assert len(claimed) == 40
        assert all(verdict.applied for verdict in done)

    def test_a_purge_frees_space(self, store, left):
        assert store.purge(QUEUE, Filter(), 1000) == 40

        assert store.enqueue(QUEUE, drafts(1))[0].accepted

    def test_the_log_needs_space_on_the_disk_too(self, store, left):
        store.purge(QUEUE, Filter(), 1000)
        left[0] = disk_space.LOG_RESERVE - 1

        with pytest.raises(StoreFull, match="space"):
            store.enqueue(QUEUE, drafts(1))

    def test_keys_are_refused_too_except_those_of_ackline_itself(self, store, left):
        with pytest.raises(StoreFull):
            store.write_keys("default", [KeyWrite(key=("mine",), value=b"1")])

        assert store.write_keys(
            "default", [KeyWrite(key=(RESERVED_KEY_PREFIX, "cron"), value=b"1")]
        )
        assert store.write_keys("default", [KeyWrite(key=("mine",), value=None)])

    def test_it_is_a_health_issue(self, store, left):
        (issue,) = store.info().issues
        assert (issue.code, issue.critical) == ("space", True)

        store.purge(QUEUE, Filter(), 1000)

        assert store.info().issues == ()


# --- locks and logs ---


def test_waiting_callers_get_the_same_error():
    attempts = []

    def commit(operations):
        if len(operations) > 1:
            attempts.append(len(operations))
            raise apsw.BusyError("held by another")
        return [operation(None) for operation in operations]

    group = OperationGroup(commit)
    for n in range(10):
        group.add(n, lambda tx: "written")

    answers = group.finish()

    assert all(isinstance(answers[n], apsw.BusyError) for n in range(10))
    assert attempts == [10]


def test_a_write_lock_that_another_program_keeps_is_an_error(store, writer, path):
    writer.set_busy_timeout(20)
    other = apsw.Connection(path)
    other.execute("BEGIN IMMEDIATE")

    with pytest.raises(StoreUnavailable, match="busy"):
        store.enqueue(QUEUE, drafts(1))
    other.close()

    assert store.enqueue(QUEUE, drafts(1))[0].accepted


def test_the_log_stays_bounded_and_shrinks_after_a_long_reader(store, path, monkeypatch):
    monkeypatch.setattr(writer_module, "MAX_WAL_BYTES", 1024 * 1024)
    monkeypatch.setattr(writer_module, "FILE_CHECK_INTERVAL", 0.0)
    monkeypatch.setattr(writer_module, "CHECKPOINT_INTERVAL", 0.0)
    reader = apsw.Connection(path)
    reader.execute("BEGIN; SELECT count(*) FROM job").fetchall()
    for n in range(20):
        store.enqueue(QUEUE, drafts(100, n * 100, size=1000))
    grown = os.path.getsize(f"{path}-wal")
    assert grown > 1024 * 1024

    reader.close()
    for n in range(20, 40):
        store.enqueue(QUEUE, drafts(100, n * 100, size=1000))

    assert os.path.getsize(f"{path}-wal") < grown


def test_every_error_of_sqlite_has_a_message(path):
    for kind in (apsw.BusyError, apsw.FullError, apsw.ReadOnlyError, apsw.CorruptError):
        assert path in str(connection_module.translate_error(kind("x"), path))
    assert path in str(connection_module.translate_error(apsw.IOError("x"), path))


# --- failures at and after the commit ---


def claim_one(store):
    return [
        job.id for job in store.claim(QUEUE, ClaimRequest(worker="w", limit=1, lease=30.0)).jobs
    ]


def test_a_failed_notification_does_not_fail_the_write(store, path, caplog):
    def fail(_wakeups):
        raise RuntimeError("after the fact")

    def put(tx):
        tx.wake_listeners(QUEUE, "ready")
        tx.execute(PUT, (1,))

    engine = Engine(path, "normal", fail)
    engine.open()

    engine.write(put)
    engine.close()

    assert len(store.read_keys("group", (), 100)) == 1
    assert "after the fact" in caplog.text


def test_a_failed_checkpoint_does_not_fail_the_write(store, caplog, monkeypatch):
    monkeypatch.setattr(writer_module, "MAX_WAL_BYTES", 0)
    monkeypatch.setattr(apsw, "SQLITE_CHECKPOINT_TRUNCATE", 99)

    assert store.enqueue(QUEUE, drafts(3))[2].accepted

    assert len(claim_one(store)) == 1
    assert store.describe("default")[0].counts[State.PROCESSING] == 1
    assert "MisuseError" in caplog.text


def test_releasing_the_write_lock_may_fail(store, monkeypatch, caplog):
    def fail(_turn):
        raise OSError("no locks here")

    monkeypatch.setattr(WriteLock, "release", fail)

    assert store.enqueue(QUEUE, drafts(1))[0].accepted
    assert "no locks here" in caplog.text


def test_a_failed_commit_fails_all_operations_and_is_not_retried(store, another, group):
    runs = []

    def do_not_answer() -> bool:
        raise apsw.IOError("the disk did not answer")

    def write(tx, n):
        tx.execute(PUT, (n,))
        runs.append(n)

    for n in range(3):
        group.add(n, functools.partial(write, n=n))
    another.connection.set_commit_hook(do_not_answer)

    answers = group.finish()

    assert sorted(runs) == [0, 1, 2]
    assert all(isinstance(answers[n], StoreUnavailable) for n in range(3))
    assert "send it again" in str(answers[0])
    assert store.read_keys("group", (), 100) == []
    assert store.enqueue(QUEUE, drafts(1))[0].accepted


def test_a_commit_that_finds_the_disk_full_says_so(store, writer):
    def refuse() -> bool:
        raise apsw.FullError("full")

    writer.set_commit_hook(refuse)
    with pytest.raises(StoreFull, match="no space left"):
        store.enqueue(QUEUE, drafts(1))
    writer.set_commit_hook(None)

    assert store.get(QUEUE, ["id0"]) == [None]
    assert store.enqueue(QUEUE, drafts(1))[0].accepted


def test_a_reader_that_cannot_roll_back_is_not_used_again(store, path, connections):
    readers = ReadConnections(path)
    with pytest.raises(apsw.AuthError), readers.read() as execute:
        connections[-1].authorizer = lambda *_: apsw.SQLITE_DENY

    with readers.read() as execute:
        assert execute("SELECT 1").fetchall() == [(1,)]
    readers.close()


# --- what prune leaves ---


def read(path, statement):
    with contextlib.closing(apsw.Connection(path)) as connection:
        return connection.execute(statement).fetchall()


def test_prune_trims_the_whole_journal(store, path, monkeypatch):
    monkeypatch.setattr(operate, "TRIM_LIMIT", 10)
    for n in range(95):
        store.enqueue(QUEUE, drafts(1, n))
    store.configure(QUEUE, QueueSettings(max_journal=5))

    store.prune(QUEUE, 100)

    assert read(path, "SELECT count(*) FROM journal") == [(5,)]
    assert read(path, "SELECT count FROM job_list WHERE code = 8") == [(5,)]


def test_prune_drops_the_lists_of_kinds_without_jobs(store, path, monkeypatch):
    monkeypatch.setattr(operate, "TRIM_LIMIT", 10)
    store.enqueue(QUEUE, [Draft(f"k{n}", f"kind{n}", b"") for n in range(45)])
    store.enqueue(QUEUE, drafts(1))
    store.purge(QUEUE, Filter(ids=frozenset(f"k{n}" for n in range(45))), 100)

    store.prune(QUEUE, 100)

    assert read(path, "SELECT kind FROM job_list WHERE code IN (1, 7)") == [("mail",)]
    store.enqueue(QUEUE, [Draft("again", "kind3", b"")])
    assert {job.id for job in store.claim(QUEUE, REQUEST).jobs} == {"id0", "again"}


def test_many_jobs_of_a_full_group_are_parked_in_several_transactions(store, writer, monkeypatch):
    """Other writers can write in between, and the claim still gets the jobs after them."""
    monkeypatch.setattr(claim, "PARK_LIMIT", 3)
    grouped = Options(group="g")
    for n in range(11):
        store.enqueue(QUEUE, [Draft(f"g{n}", "mail", b"", options=grouped)])
    store.enqueue(QUEUE, [Draft("last", "mail", b"")])
    one = ClaimRequest(worker="w", limit=1, lease=30.0)
    [first] = store.claim(QUEUE, one).jobs
    commits = count_commits(writer)

    claimed = store.claim(QUEUE, one, [lifecycle.progress(first, b"1")])

    assert [job.id for job in claimed.jobs] == ["last"]
    assert claimed.verdicts == [lifecycle.Verdict(True, State.PROCESSING)]
    assert len(commits) == 4, "ten jobs are put aside, three in each transaction"
    assert store.claim(QUEUE, one).jobs == []
    store.apply(QUEUE, [lifecycle.complete(first, None, DEFAULTS)])
    assert [job.id for job in store.claim(QUEUE, REQUEST).jobs] == ["g1"]


def test_many_concurrent_reads_leave_few_connections(store, path, connections):
    connections.clear()
    readers = ReadConnections(path)
    with contextlib.ExitStack() as group:
        for _ in range(MAX_IDLE_CONNECTIONS + 3):
            group.enter_context(readers.read())

    assert len(connections) == MAX_IDLE_CONNECTIONS + 3
    assert len(still_open(connections)) == MAX_IDLE_CONNECTIONS
    readers.close()
    assert still_open(connections) == []
