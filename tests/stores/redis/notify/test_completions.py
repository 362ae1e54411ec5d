"""The notification of a completed job has its result, so that waiters need not read it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from queue import Empty, SimpleQueue
from typing import Any

import pytest
from tests.stores.redis.conftest import BOOM, QUEUE, SOON, done, drafts, wants
from tests.waiting import until

import ackline
from ackline.core.config import DEFAULTS
from ackline.core.job import Draft
from ackline.core.lifecycle import bury
from ackline.queue import results
from ackline.queue.results import ResultWaiter
from ackline.stores.contract import Completion, CompletionListener
from ackline.stores.redis import RedisStore, notify
from ackline.stores.redis.io.client import Subscriber


@pytest.fixture
def listener(store):
    store.enqueue(QUEUE, [])
    with store.listen([QUEUE], "finished") as listener:
        assert isinstance(listener, CompletionListener)
        yield listener


def end_one(store, n: int) -> None:
    store.enqueue(QUEUE, drafts(1, start=n))
    [job] = store.claim(QUEUE, wants(1)).jobs
    store.apply(QUEUE, [done(job)])


def complete(store, *results: bytes | None) -> None:
    """Complete jobs in one call, one for each result."""
    store.enqueue(QUEUE, drafts(len(results)))
    jobs = store.claim(QUEUE, wants(len(results))).jobs
    steps = [done(job, result) for job, result in zip(jobs, results, strict=True)]
    assert all(verdict.applied for verdict in store.apply(QUEUE, steps))


class TestMessages:
    @pytest.mark.parametrize("result", [b"1", b"", None, b"\x00\xff", b"x" * 4096])
    def test_one_job_is_published_with_its_result(self, store, listener, result):
        complete(store, result)

        assert listener.wait(SOON)
        assert listener.completions() == [Completion("id0", result)]
        assert listener.completions() is None

    def test_a_large_result_has_to_be_read(self, store, listener):
        complete(store, b"x" * 4097)

        assert listener.wait(SOON)
        assert listener.completions() is None

    def test_jobs_that_finish_together_have_to_be_read(self, store, listener):
        complete(store, b"1", b"2")

        assert listener.wait(SOON)
        assert listener.completions() is None

    def test_jobs_of_several_claims_that_finish_together_have_to_be_read(self, store, listener):
        store.enqueue(QUEUE, drafts(2))
        jobs = [store.claim(QUEUE, wants(1)).jobs[0] for _ in range(2)]
        store.apply(QUEUE, [done(job) for job in jobs])

        assert listener.wait(SOON)
        assert listener.completions() is None

    def test_a_failed_job_has_to_be_read(self, store, listener):
        store.enqueue(QUEUE, drafts(1))
        [job] = store.claim(QUEUE, wants(1)).jobs
        store.apply(QUEUE, [bury(job, BOOM, DEFAULTS)])

        assert listener.wait(SOON)
        assert listener.completions() is None

    def test_one_message_without_a_job_means_that_all_have_to_be_read(self, store, listener):
        complete(store, b"1")
        store.enqueue(QUEUE, drafts(1, start=5))
        [job] = store.claim(QUEUE, wants(1)).jobs
        store.apply(QUEUE, [bury(job, BOOM, DEFAULTS)])

        while listener.wait(0.1):
            pass
        assert listener.completions() is None

    def test_after_a_wake_up_or_a_reconnect_jobs_have_to_be_read(self, store, listener, client):
        listener.wake()
        assert listener.wait(SOON)
        assert listener.completions() is None

        client.client_kill_filter(_type="pubsub")
        complete(store, b"1")
        assert listener.wait(SOON)
        assert listener.completions() is None

    def test_messages_that_nobody_fetches_do_not_pile_up(self, store, listener, monkeypatch):
        monkeypatch.setattr(notify, "MAX_COMPLETIONS", 3)
        for n in range(5):
            end_one(store, n)
            assert listener.wait(SOON)

        assert listener.completions() is None


class FakeListener:
    """A listener that is notified by the test."""

    def __init__(self) -> None:
        self._notifications: SimpleQueue[list[Completion] | None] = SimpleQueue()
        self._received: list[Completion] | None = None

    def complete(self, id: str, result: bytes) -> None:
        self._notifications.put([Completion(id, result)])

    def wait(self, timeout: float) -> bool:
        with contextlib.suppress(Empty):
            self._received = self._notifications.get(timeout=timeout)
            return True
        return False

    def completions(self) -> list[Completion] | None:
        received, self._received = self._received, None
        return received

    def wake(self) -> None:
        self._notifications.put(None)

    def close(self) -> None:
        self.wake()


class RecordingStore:
    """A store that counts reads of results; its listener can be the test's."""

    def __init__(self, store: RedisStore, listener: FakeListener | None = None) -> None:
        self.reads = 0
        self.listener: Any = listener
        self._store = store

    def get(self, *arguments: Any) -> Any:
        self.reads += 1
        return self._store.get(*arguments)

    def listen(self, *arguments: Any) -> Any:
        self.listener = self.listener or self._store.listen(*arguments)
        return self.listener


@contextlib.contextmanager
def result_waiter(store: Any) -> Iterator[ResultWaiter]:
    waiter = ResultWaiter(store, QUEUE)
    yield waiter
    waiter.close()


class TestResultWaiter:
    @pytest.fixture
    def queues(self, url):
        with ackline.open(url) as queues:
            yield queues

    def test_a_result_arrives_without_being_read(self, queues, start, monkeypatch):
        queue = queues["mail"]
        queue.handler(lambda job: {"got": job.payload})
        start(queue)
        reads: list[Any] = []
        monkeypatch.setattr(queue.store, "get", lambda *given: reads.append(given))

        results = [queue.enqueue_and_wait(n, timeout=SOON) for n in range(20)]

        assert results == [{"got": n} for n in range(20)]
        assert reads == []

    def test_jobs_of_others_are_not_read(self, store, monkeypatch):
        monkeypatch.setattr(results, "MAX_WAIT", 60.0)
        store.enqueue(QUEUE, [Draft("mine", "mail", b"1", delay=60.0)])
        recording = RecordingStore(store)

        with result_waiter(recording) as waiter, waiter.expect("mine", unique_id=True):
            for n in range(5):
                end_one(store, n)
            until(lambda: waiter.wakeups)
            assert recording.reads == 0

            recording.listener.wake()
            until(lambda: recording.reads)

    def test_a_completion_published_before_anybody_waits_for_it_arrives(self, store, monkeypatch):
        monkeypatch.setattr(results, "MAX_EARLY_COMPLETIONS", 2)
        monkeypatch.setattr(results, "MAX_WAIT", 60.0)
        listener = FakeListener()
        with result_waiter(RecordingStore(store, listener)) as waiter:
            for id in ("id0", "id1", "id2"):
                listener.complete(id, b'"done"')
            listener.wake()
            until(lambda: waiter.wakeups == 4)  # it has read all messages before

            with waiter.expect("id2", unique_id=True) as expected:
                assert expected.wait(0.0).result == b'"done"'
            with waiter.expect("id1") as expected:
                assert not expected.done, "it may be the completion of an earlier job with this id"
            with waiter.expect("id0", unique_id=True) as expected:
                assert not expected.done, "only so many early completions are kept"

    def test_while_nobody_waits_the_server_keeps_no_messages(
        self, queues, store, client, monkeypatch
    ):
        monkeypatch.setattr(results, "IDLE_TIMEOUT", 0.1)
        before = len(client.client_list(_type="pubsub"))
        waiter = queues["mail"].waiter
        assert len(client.client_list(_type="pubsub")) == before + 1

        until(lambda: len(client.client_list(_type="pubsub")) == before)
        store.enqueue(QUEUE, drafts(1))
        with waiter.expect("id0", unique_id=True) as expected:
            until(lambda: len(client.client_list(_type="pubsub")) == before + 1)
            [job] = store.claim(QUEUE, wants(1)).jobs
            store.apply(QUEUE, [done(job, b"1")])
            assert expected.wait(SOON).result == b"1"

    def test_a_lost_completion_among_others_is_recovered(self, queues, store, monkeypatch):
        monkeypatch.setattr(results, "MAX_WAIT", 0.2)
        read = Subscriber.read

        def lossy(subscriber: Subscriber) -> list[tuple[bytes, bytes]]:
            return [message for message in read(subscriber) if b"mine" not in message[1]]

        monkeypatch.setattr(Subscriber, "read", lossy)
        waiter = queues["mail"].waiter
        store.enqueue(QUEUE, [Draft("mine", "mail", b"1")])
        with waiter.expect("mine", unique_id=True) as expected:
            for n in range(100):
                [job] = store.claim(QUEUE, wants(1)).jobs
                store.apply(QUEUE, [done(job, b"1")])
                store.enqueue(QUEUE, drafts(1, start=n))
                if expected.done:
                    break
                time.sleep(0.05)
            assert expected.wait(0.0).result == b"1"

    def test_its_thread_survives_errors(self, queues, store, monkeypatch):
        waiter, wait = queues["mail"].waiter, notify.RedisCompletionListener.wait
        errors = [ValueError("unheard of")]

        def fail(self, timeout: float) -> bool:
            if errors:
                raise errors.pop()
            return wait(self, timeout)

        monkeypatch.setattr(notify.RedisCompletionListener, "wait", fail)
        store.enqueue(QUEUE, drafts(1))
        with waiter.expect("id0", unique_id=True) as expected:
            until(lambda: not errors)
            [job] = store.claim(QUEUE, wants(1)).jobs
            store.apply(QUEUE, [done(job, b"1")])
            assert expected.wait(SOON).result == b"1"

    def test_the_completion_of_an_earlier_job_is_not_that_of_a_later_one(self, store, monkeypatch):
        """An id that a caller has chosen may just have been that of another job."""
        monkeypatch.setattr(results, "MAX_WAIT", 60.0)
        store.enqueue(QUEUE, drafts(1))
        listener = FakeListener()
        recording = RecordingStore(store, listener)
        with result_waiter(recording) as waiter, waiter.expect("id0") as expected:
            listener.complete("id0", b'"old"')
            until(lambda: recording.reads)

            assert not expected.done
