"""Transactions: shared commits, failures that stay alone, a full file, a bounded log."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import threading

import apsw
import pytest
from tests.stores.sqlite.conftest import QUEUE, REQUEST, drafts

from ackline import lifecycle
from ackline.config import DEFAULTS, QueueSettings
from ackline.errors import StoreError, StoreFull, StoreUnavailable
from ackline.job import Draft, Options, State
from ackline.limits import OWN_KEYS
from ackline.stores.base import ClaimRequest, Filter, KeyWrite
from ackline.stores.sqlite import claim, keep, room
from ackline.stores.sqlite import connection as connection_module
from ackline.stores.sqlite import engine as engine_module
from ackline.stores.sqlite import writer as writer_module
from ackline.stores.sqlite.locks import Turn


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

    store._engine._writer.connection.set_commit_hook(count)
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

    with pytest.raises(StoreFull, match=r"\b5\b"):
        store.enqueue(QUEUE, drafts(6))

    assert store.describe("default")[0].counts[State.QUEUED] == 0


# --- a full file ---


def fill(store, pages):
    store.enqueue(QUEUE, drafts(1))
    store._engine._writer.connection.pragma("max_page_count", pages)
    for n in itertools.count(1):
        try:
            store.enqueue(QUEUE, drafts(10, n * 10, size=500))
        except StoreFull as error:
            return error
    return None


def test_when_not_even_the_reserve_is_left_nothing_is_half_done(store):
    error = fill(store, 100)

    assert "no room left" in str(error)
    (info,) = store.describe("default")
    jobs = store.page(QUEUE, Filter(), None, 100_000).jobs
    assert len(jobs) == info.counts[State.QUEUED]
    assert len(jobs) % 10 == 1
    assert len(store.events(QUEUE, None, 100_000)) == len(jobs)


def test_a_nearly_full_disk_refuses_enqueue(store, monkeypatch):
    monkeypatch.setattr(room, "DISK_RESERVE", 10**18)

    with pytest.raises(StoreFull, match="MB"):
        store.enqueue(QUEUE, drafts(1))


def test_a_disk_that_had_room_is_not_asked_again_for_each_job(store, monkeypatch):
    asked = []
    free = room.free_on_disk

    def ask(path):
        asked.append(path)
        return free(path)

    monkeypatch.setattr(room, "free_on_disk", ask)
    monkeypatch.setattr(room, "LOOK_EVERY", 100.0)
    for n in range(5):
        store.enqueue(QUEUE, drafts(1, n))

    assert len(asked) == 1


class TestNearlyFullDisk:
    """A purge frees pages inside of the file, which does not shrink."""

    LARGE = b'"' + b"x" * 100_000 + b'"'

    @pytest.fixture
    def left(self, store, monkeypatch):
        """A disk whose last 30 MB are left, and 4 MB of jobs."""
        monkeypatch.setattr(room, "LOOK_EVERY", 0.0)
        store.enqueue(QUEUE, [Draft(str(n), "k", self.LARGE) for n in range(40)])
        left = [room.DISK_RESERVE - 2 * 1_048_576]
        monkeypatch.setattr(room, "free_on_disk", lambda _path: left[0])
        with pytest.raises(StoreFull, match="purge"):
            store.enqueue(QUEUE, drafts(1))
        return left

    def test_only_enqueue_is_refused(self, store, left):
        claimed = store.claim(QUEUE, REQUEST).jobs
        done = store.apply(QUEUE, [lifecycle.complete(job, b"r", DEFAULTS) for job in claimed])

        assert len(claimed) == 40
        assert all(verdict.applied for verdict in done)

    def test_a_purge_makes_room(self, store, left):
        assert store.purge(QUEUE, Filter(), 1000) == 40

        assert store.enqueue(QUEUE, drafts(1))[0].accepted

    def test_but_what_is_written_has_to_go_through_the_log(self, store, left):
        store.purge(QUEUE, Filter(), 1000)
        left[0] = room.LOG_RESERVE - 1

        with pytest.raises(StoreFull, match="space"):
            store.enqueue(QUEUE, drafts(1))

    def test_keys_are_refused_too_but_not_the_notes_that_it_takes_to_go_on(self, store, left):
        with pytest.raises(StoreFull):
            store.write_keys("default", [KeyWrite(key=("mine",), value=b"1")])

        assert store.write_keys("default", [KeyWrite(key=(OWN_KEYS, "cron"), value=b"1")])
        assert store.write_keys("default", [KeyWrite(key=("mine",), value=None)])

    def test_whoever_looks_after_it_is_told(self, store, left):
        (trouble,) = store.info().troubles
        assert (trouble.what, trouble.grave) == ("space", True)

        store.purge(QUEUE, Filter(), 1000)

        assert store.info().troubles == ()


# --- locks and logs ---


def test_those_who_wait_together_are_told_together(store, path):
    attempts = []

    def refuse(_operation: str, *_rest: object) -> bool:
        attempts.append(1)
        raise apsw.BusyError("held by another")

    crowd = Crowd(store._engine)
    for n in range(10):
        crowd.add(n, lambda tx: "written")
    store._engine._writer._begin = refuse

    answers = crowd.finish()

    assert all(isinstance(answers[n], StoreUnavailable) for n in range(10))
    assert len(attempts) == 1


def test_a_foreign_write_lock_held_too_long_is_told(store, path):
    store._engine._writer.connection.set_busy_timeout(20)
    other = apsw.Connection(path)
    other.execute("BEGIN IMMEDIATE")

    with pytest.raises(StoreUnavailable, match="busy"):
        store.enqueue(QUEUE, drafts(1))
    other.close()

    assert store.enqueue(QUEUE, drafts(1))[0].accepted


def test_the_log_stays_bounded_and_shrinks_after_a_long_reader(store, path, monkeypatch):
    monkeypatch.setattr(writer_module, "LONGEST_LOG", 1024 * 1024)
    monkeypatch.setattr(writer_module, "LOOK_EVERY", 0.0)
    monkeypatch.setattr(writer_module, "CUT_EVERY", 0.0)
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


def test_every_error_of_sqlite_has_words(path):
    for kind in (apsw.BusyError, apsw.FullError, apsw.ReadOnlyError, apsw.CorruptError):
        assert path in str(connection_module.explain(kind("x"), path))
    assert path in str(connection_module.explain(apsw.IOError("x"), path))


# --- failures at the end ---


def claim_one(store):
    return [
        job.id for job in store.claim(QUEUE, ClaimRequest(worker="w", limit=1, lease=30.0)).jobs
    ]


@pytest.mark.parametrize("where", ["tell", "cut"])
def test_a_failure_after_the_commit_takes_nothing_back(store, where, caplog, monkeypatch):
    store.enqueue(QUEUE, drafts(3))

    def fail(*_):
        raise RuntimeError("after the fact")

    crowd = Crowd(store._engine)
    for n in range(2):
        crowd.add(n, lambda tx, n=n: tx.wake(QUEUE, "ready") or (tx.execute(PUT, (n,)) and n))
    if where == "tell":
        store._engine._tell = fail
    else:
        monkeypatch.setattr(writer_module, "LONGEST_LOG", 0)
        store._engine._writer._cut_log = fail

    answers = crowd.finish()

    assert (answers[0], answers[1]) == (0, 1)
    assert len(claim_one(store)) == 1
    assert store.describe("default")[0].counts[State.PROCESSING] == 1
    assert "written, but then" in caplog.text


def test_leaving_the_turn_may_fail(store, monkeypatch, caplog):
    def fail(_turn):
        raise OSError("no locks here")

    monkeypatch.setattr(Turn, "leave", fail)

    assert store.enqueue(QUEUE, drafts(1))[0].accepted
    assert "no locks here" in caplog.text


def test_a_commit_that_fails_is_told_to_all_and_not_tried_again(store):
    runs = []

    def do_not_answer() -> bool:
        raise apsw.IOError("the disk did not answer")

    crowd = Crowd(store._engine)

    def write(tx, n):
        tx.execute(PUT, (n,))
        runs.append(n)

    for n in range(3):
        crowd.add(n, functools.partial(write, n=n))
    connection = store._engine._writer.connection
    connection.set_commit_hook(do_not_answer)

    answers = crowd.finish()

    assert sorted(runs) == [0, 1, 2]
    assert all(isinstance(answers[n], StoreUnavailable) for n in range(3))
    assert "send it again" in str(answers[0])
    connection.set_commit_hook(None)
    assert store.enqueue(QUEUE, drafts(1))[0].accepted


def test_a_disk_found_full_by_the_commit_is_told_as_full(store):
    def refuse() -> bool:
        raise apsw.FullError("full")

    store._engine._writer.connection.set_commit_hook(refuse)
    with pytest.raises(StoreFull, match="room"):
        store.enqueue(QUEUE, drafts(1))
    store._engine._writer.connection.set_commit_hook(None)

    assert store.get(QUEUE, ["id0"]) == [None]
    assert store.enqueue(QUEUE, drafts(1))[0].accepted


def test_a_reader_that_cannot_roll_back_is_not_used_again(store):
    def read():
        with store._engine.read() as execute:
            execute.__self__.authorizer = lambda *_: apsw.SQLITE_DENY
            return execute.__self__

    with pytest.raises(StoreError):
        read()

    assert store._engine._readers._idle == []
    assert store.describe("default") == []


# --- what prune leaves ---


def test_prune_trims_the_whole_journal(store, monkeypatch):
    monkeypatch.setattr(keep, "TRIM_LIMIT", 10)
    for n in range(95):
        store.enqueue(QUEUE, drafts(1, n))
    store.configure(QUEUE, QueueSettings(max_journal=5))

    store.prune(QUEUE, 100)

    with store._engine.read() as execute:
        assert execute("SELECT count(*) FROM journal").fetchall() == [(5,)]
        assert execute("SELECT n FROM slot WHERE code = 8").fetchall() == [(5,)]


def test_prune_drops_the_lines_of_kinds_gone_by(store, monkeypatch):
    monkeypatch.setattr(keep, "TRIM_LIMIT", 10)
    store.enqueue(QUEUE, [Draft(f"k{n}", f"kind{n}", b"") for n in range(45)])
    store.enqueue(QUEUE, drafts(1))
    store.purge(QUEUE, Filter(ids=frozenset(f"k{n}" for n in range(45))), 100)

    store.prune(QUEUE, 100)

    with store._engine.read() as execute:
        assert execute("SELECT kind FROM slot WHERE code IN (1, 7)").fetchall() == [("mail",)]
    store.enqueue(QUEUE, [Draft("again", "kind3", b"")])
    assert {job.id for job in store.claim(QUEUE, REQUEST).jobs} == {"id0", "again"}


def test_a_long_line_of_a_full_group_is_put_aside_in_pieces(store, monkeypatch):
    """Other writers get in between; who claims gets what stands behind it all the same."""
    monkeypatch.setattr(claim, "MOST_PARKED", 3)
    write, writes, parked = store._engine.write, [], []

    def noting(operation):
        writes.append(operation)
        return write(operation)

    def park(lines, rows):
        parked.append(len(rows))
        return _park(lines, rows)

    _park = claim._park
    monkeypatch.setattr(store._engine, "write", noting)
    monkeypatch.setattr(claim, "_park", park)
    grouped = Options(group="g")
    for n in range(11):
        store.enqueue(QUEUE, [Draft(f"g{n}", "mail", b"", options=grouped)])
    store.enqueue(QUEUE, [Draft("last", "mail", b"")])
    one = ClaimRequest(worker="w", limit=1, lease=30.0)
    [first] = store.claim(QUEUE, one).jobs
    writes.clear()
    parked.clear()

    claimed = store.claim(QUEUE, one, [lifecycle.progress(first, b"1")])

    assert [job.id for job in claimed.jobs] == ["last"]
    assert claimed.verdicts == [lifecycle.Verdict(True, State.PROCESSING)]
    assert parked == [3, 3, 3, 1]
    assert len(writes) == 4
    assert store.claim(QUEUE, one).jobs == []
    store.apply(QUEUE, [lifecycle.complete(first, None, DEFAULTS)])
    assert [job.id for job in store.claim(QUEUE, REQUEST).jobs] == ["g1"]


def test_a_crowd_of_readers_leaves_few_connections(store):
    with contextlib.ExitStack() as crowd:
        for _ in range(engine_module.MOST_IDLE + 3):
            crowd.enter_context(store._engine.read())

    assert len(store._engine._readers._idle) == engine_module.MOST_IDLE
