"""Transactions: shared commits, failures that stay alone, forks, a full file, a bounded log."""

from __future__ import annotations

import itertools
import os
import threading

import apsw
import pytest
from tests.stores.sqlite.conftest import QUEUE, REQUEST, drafts

from ackline import lifecycle
from ackline.config import DEFAULTS, QueueSettings
from ackline.errors import StoreFull, StoreUnavailable
from ackline.job import State
from ackline.stores.base import Filter
from ackline.stores.sqlite import connection as connection_module
from ackline.stores.sqlite import engine as engine_module
from ackline.stores.sqlite import room
from ackline.stores.sqlite.turn import Turn


class Crowd:
    """Operations that pile up behind one that is held open."""

    def __init__(self, engine):
        self.engine = engine
        self.answers = {}
        self.inside, self.go_on = threading.Event(), threading.Event()
        self.threads = [threading.Thread(target=self._write, args=("first", self._hold))]
        self.threads[0].start()
        assert self.inside.wait(10)

    def _hold(self, tx):
        self.inside.set()
        assert self.go_on.wait(10)
        return "held"

    def _write(self, name, operation):
        try:
            self.answers[name] = self.engine.write(operation)
        except Exception as error:
            self.answers[name] = error

    def add(self, name, operation):
        thread = threading.Thread(target=self._write, args=(name, operation))
        self.threads.append(thread)
        thread.start()
        while self.engine._group.waiting < len(self.threads) - 1:
            pass

    def finish(self):
        self.go_on.set()
        for thread in self.threads:
            thread.join(10)
        return self.answers


def test_those_who_wait_share_one_commit(store):
    commits = []

    def count() -> bool:
        commits.append(1)
        return False

    store._engine._writer.set_commit_hook(count)
    crowd = Crowd(store._engine)
    for n in range(20):
        crowd.add(n, lambda tx, n=n: tx.execute(PUT, (n,)) and n)

    answers = crowd.finish()

    assert [answers[n] for n in range(20)] == list(range(20))
    assert len(commits) == 2, "one of the operation held open, one of all the others"
    assert len(store.read_keys("crowd", (), 100)) == 20


PUT = "INSERT INTO keyval VALUES ('crowd', CAST(?1 || char(0, 1) AS BLOB), x'', 1)"


def test_one_that_fails_does_not_take_the_others_along(store):
    def guilty(tx):
        tx.execute(PUT, ("guilty",))
        raise RuntimeError("mine alone")

    crowd = Crowd(store._engine)
    crowd.add("a", lambda tx: tx.execute(PUT, ("a",)) and "ok")
    crowd.add("guilty", guilty)
    crowd.add("b", lambda tx: tx.execute(PUT, ("b",)) and "ok")

    answers = crowd.finish()

    assert (answers["a"], answers["b"]) == ("ok", "ok")
    assert str(answers["guilty"]) == "mine alone"
    assert len(store.read_keys("crowd", (), 100)) == 2


def test_an_interrupted_leader_leaves_nothing_behind(store):
    def interrupted(tx):
        tx.execute(PUT, ("half",))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store._engine.write(interrupted)

    assert store.read_keys("crowd", (), 100) == []
    assert store.enqueue(QUEUE, drafts(1))[0].accepted


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


def test_a_full_queue_refuses_the_whole_batch(store):
    store.configure(QUEUE, QueueSettings(max_jobs=5))

    with pytest.raises(StoreFull, match="limit of 5"):
        store.enqueue(QUEUE, drafts(6))

    assert store.describe("default")[0].counts[State.QUEUED] == 0


# --- a full file ---


def fill(store, pages):
    store.enqueue(QUEUE, drafts(1))
    store._engine._writer.pragma("max_page_count", pages)
    for n in itertools.count(1):
        try:
            store.enqueue(QUEUE, drafts(10, n * 10, size=500))
        except StoreFull as error:
            return error
    return None


def test_when_full_only_enqueue_is_refused(store):
    error = fill(store, 200)
    assert "largest size" in str(error)
    before = store.describe("default")[0].counts[State.QUEUED]

    claimed = store.claim(QUEUE, REQUEST).jobs
    done = store.apply(QUEUE, [lifecycle.complete(job, b"r", DEFAULTS) for job in claimed])
    cancelled = store.apply(QUEUE, [lifecycle.cancel("id200", DEFAULTS)])
    assert all(verdict.applied for verdict in done + cancelled)
    assert len(claimed) == 100
    purged = store.purge(QUEUE, Filter(), before)

    assert purged == before
    assert store.enqueue(QUEUE, drafts(1, 5000))[0].accepted


def test_when_not_even_the_reserve_is_left_nothing_is_half_done(store, monkeypatch):
    monkeypatch.setattr(room, "SIZE_RESERVE", 10**9)

    error = fill(store, 100)

    assert "no room left" in str(error)
    (info,) = store.describe("default")
    jobs = store.page(QUEUE, Filter(), None, 100_000).jobs
    assert len(jobs) == info.counts[State.QUEUED]
    assert len(jobs) % 10 == 1
    assert len(store.events(QUEUE, None, 100_000)) == len(jobs)


def test_a_nearly_full_disk_refuses_enqueue(store, monkeypatch):
    monkeypatch.setattr(room, "DISK_RESERVE", 10**18)

    with pytest.raises(StoreFull, match="MB left"):
        store.enqueue(QUEUE, drafts(1))


# --- locks, logs and forks ---


def test_a_lock_held_too_long_is_told(store, path, monkeypatch):
    monkeypatch.setattr(engine_module, "BUSY_SECONDS", 0.05)
    other = Turn(f"{path}-lock")
    assert other.take(1)

    with pytest.raises(StoreUnavailable, match="is busy"):
        store.enqueue(QUEUE, drafts(1))
    other.close()

    assert store.enqueue(QUEUE, drafts(1))[0].accepted


def test_those_who_wait_together_are_told_together(store, path, monkeypatch):
    monkeypatch.setattr(engine_module, "BUSY_SECONDS", 0.05)
    crowd = Crowd(store._engine)
    for n in range(10):
        crowd.add(n, lambda tx: "written")
    attempts = []

    def refuse(self, timeout):
        attempts.append(timeout)
        return False

    monkeypatch.setattr(Turn, "take", refuse)

    answers = crowd.finish()

    assert all(isinstance(answers[n], StoreUnavailable) for n in range(10))
    assert len(attempts) == 1


def test_a_foreign_write_lock_held_too_long_is_told(store, path):
    store._engine._writer.set_busy_timeout(20)
    other = apsw.Connection(path)
    other.execute("BEGIN IMMEDIATE")

    with pytest.raises(StoreUnavailable, match="is busy"):
        store.enqueue(QUEUE, drafts(1))
    other.close()

    assert store.enqueue(QUEUE, drafts(1))[0].accepted


def test_the_log_stays_bounded_and_shrinks_after_a_long_reader(store, path, monkeypatch):
    monkeypatch.setattr(engine_module, "LONGEST_LOG", 1024 * 1024)
    store._engine._next_cut = 1024 * 1024
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


def test_a_forked_child_must_open_again(store):
    store.enqueue(QUEUE, drafts(1))
    child = os.fork()
    if child == 0:
        os._exit(use_in_child(store))

    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 0
    assert store.enqueue(QUEUE, drafts(2))[1].state is State.QUEUED
    assert store.get(QUEUE, ["child"]) != [None]


def use_in_child(store) -> int:
    try:
        store.enqueue(QUEUE, drafts(1))
        return 1
    except StoreUnavailable:
        pass
    store.close()
    store.open()
    from ackline.job import Draft

    accepted = store.enqueue(QUEUE, [Draft("child", "mail", b"")])[0].accepted
    store.close()
    return 0 if accepted else 2


def test_every_error_of_sqlite_has_words(path):
    for kind in (apsw.BusyError, apsw.FullError, apsw.ReadOnlyError, apsw.CorruptError):
        assert path in str(connection_module.explain(kind("x"), path))
    assert path in str(connection_module.explain(apsw.IOError("x"), path))
