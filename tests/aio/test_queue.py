from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import ackline.aio
from ackline import (
    Completed,
    Event,
    EventsDropped,
    InvalidOption,
    JobCancelled,
    JobFailed,
    JobNotFound,
    NewJob,
    ReaderMoved,
    State,
    StoreUnavailable,
    Timeout,
    WrongState,
)
from ackline.aio import AsyncQueue


async def finish(queue: AsyncQueue[Any, Any], result: Any = None) -> None:
    [job] = await queue.claim(wait=5)
    await queue.complete(job, result)


class WaitingListener:
    """A listener that waits until it is woken, however little time it is given."""

    def __init__(self) -> None:
        self.waiting, self.woken, self.closed = (threading.Event() for _ in range(3))
        self.closed_early = False

    def wait(self, timeout: float) -> bool:
        self.waiting.set()
        woken = self.woken.wait(30)
        self.closed_early = self.closed.is_set()
        return woken

    def wake(self) -> None:
        self.woken.set()

    def close(self) -> None:
        self.closed.set()


class TestWaiting:
    async def test_the_result_arrives(self, url: str) -> None:
        async with ackline.aio.open(url) as queues:
            queue = queues["img"]
            call = asyncio.create_task(queue.enqueue_and_wait({"n": 1}, id="a", timeout=5))
            await finish(queue, "thumbnail")
            assert await call == "thumbnail"
            assert await queue.enqueue_and_wait({"n": 1}, id="a") == "thumbnail"
            assert await queue.enqueue({"n": 1}, id="a") == Completed("a", "thumbnail")

    async def test_no_thread_waits_for_each_caller(self, url: str) -> None:
        threads = threading.active_count()
        async with ackline.aio.open(url) as queues:
            queue = queues["img"]
            calls = [
                asyncio.create_task(queue.enqueue_and_wait(n, id=str(n), timeout=10))
                for n in range(200)
            ]
            done: list[Any] = []
            while len(done) < 200:
                jobs = await queue.claim(50, wait=5)
                assert threading.active_count() < threads + 20
                await asyncio.gather(*(queue.complete(job, job.payload) for job in jobs))
                done += jobs
            assert await asyncio.gather(*calls) == list(range(200))

    async def test_a_timeout_leaves_the_job_alone(self, url: str) -> None:
        async with ackline.aio.open(url) as queues:
            queue = queues["img"]
            with pytest.raises(Timeout):
                await queue.enqueue_and_wait(1, id="a", timeout=0.01)
            await finish(queue, 7)
            assert await queue.result("a", timeout=5) == 7

    async def test_failed_and_cancelled_jobs_raise(self, url: str) -> None:
        async with ackline.aio.open(url) as queues:
            queue = queues["img"]
            call = asyncio.create_task(queue.enqueue_and_wait(1, id="a", timeout=5))
            [job] = await queue.claim(wait=5)
            await queue.bury(job, ValueError("bad image"))
            with pytest.raises(JobFailed, match="ValueError: bad image"):
                await call
            call = asyncio.create_task(queue.enqueue_and_wait(1, id="b", timeout=5))
            while await queue.status("b") is None:
                await asyncio.sleep(0.001)
            await queue.cancel("b")
            with pytest.raises(JobCancelled):
                await call

    async def test_a_failed_job_enqueued_again_can_be_awaited_again(self, url: str) -> None:
        async with ackline.aio.open(url) as queues:
            queue = queues["img"]
            await queue.enqueue(1, id="a")
            [job] = await queue.claim()
            await queue.bury(job, "first try")
            call = asyncio.create_task(queue.enqueue_and_wait(1, id="a", timeout=5))
            await finish(queue, "second try")
            assert await call == "second try"

    async def test_a_result_of_nothing_is_not_found(self, url: str) -> None:
        async with ackline.aio.open(url) as queues:
            with pytest.raises(JobNotFound):
                await queues["img"].result("nobody", timeout=5)
            await queues["img"].enqueue(1, id="a")
            with pytest.raises(Timeout):
                await queues["img"].result("a")

    async def test_closing_raises_for_callers_that_wait(
        self, url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        opened = await ackline.aio.open(url)
        queue = opened["img"]
        await queue.enqueue(1, id="a")
        looked, get = threading.Event(), queue.sync.store.get

        def note(*given: Any) -> Any:
            looked.set()
            return get(*given)

        monkeypatch.setattr(queue.sync.store, "get", note)
        call = asyncio.create_task(queue.result("a", timeout=30))
        assert await asyncio.to_thread(looked.wait, 10)
        await asyncio.sleep(0.01)
        await opened.close()
        with pytest.raises(Timeout, match="closed"):
            await call


class TestClaiming:
    async def test_a_waiting_claim_is_woken(self, url: str) -> None:
        async with ackline.aio.open(url) as queues:
            queue = queues["email"]
            claim = asyncio.create_task(queue.claim(10, wait=5))
            await asyncio.sleep(0.01)
            await queue.enqueue("hello")
            assert [job.payload for job in await claim] == ["hello"]

    async def test_a_job_that_becomes_due_is_claimed_then(self, url: str) -> None:
        async with ackline.aio.open(url) as queues:
            queue = queues["email"]
            await queue.enqueue("later", delay=0.05)
            started = asyncio.get_running_loop().time()
            assert len(await queue.claim(wait=5)) == 1
            assert asyncio.get_running_loop().time() - started < 0.5

    async def test_a_waiting_claim_times_out(self, url: str) -> None:
        async with ackline.aio.open(url) as queues:
            assert await queues["email"].claim(wait=0.01) == []

    async def test_a_cancelled_wait_ends_at_once_and_frees_its_thread(self, url: str) -> None:
        async with ackline.aio.open(url) as queues:
            queue = queues["email"]
            claim = asyncio.create_task(queue.claim(wait=60))
            await asyncio.sleep(0.05)
            claim.cancel()
            with pytest.raises(asyncio.CancelledError):
                await claim
            await queue.enqueue(1, id="a")
            assert [job.id for job in await queue.claim(wait=5)] == ["a"]

    async def test_a_cancelled_wait_closes_its_listener(
        self, url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with ackline.aio.open(url) as queues:
            queue = queues["email"]
            listener = WaitingListener()
            monkeypatch.setattr(queue.sync.store, "listen", lambda *_: listener)
            claim = asyncio.create_task(queue.claim(wait=60))
            await asyncio.to_thread(listener.waiting.wait, 5)
            claim.cancel()
            assert await asyncio.to_thread(listener.closed.wait, 5)
            assert not listener.closed_early

    async def test_jobs_of_a_cancelled_claim_are_released(
        self, url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with ackline.aio.open(url) as queues:
            queue = queues["email"]
            await queue.enqueue(1, id="a")
            claimed, go_on = threading.Event(), threading.Event()
            claim = queue.sync.claim_records

            def claim_slowly(*args: Any) -> Any:
                receipt = claim(*args)
                claimed.set()
                go_on.wait(5)
                return receipt

            monkeypatch.setattr(queue.sync, "claim_records", claim_slowly)
            task = asyncio.create_task(queue.claim())
            await asyncio.to_thread(claimed.wait, 5)
            task.cancel()
            go_on.set()
            with pytest.raises(asyncio.CancelledError):
                await task
            monkeypatch.undo()
            [again] = await queue.claim(wait=5)
            assert (again.id, again.attempt) == ("a", 1)


class TestWatching:
    async def test_events_by_cursor(self, url: str) -> None:
        async with ackline.aio.open(url) as queues:
            queue = queues["email"]
            await queue.enqueue(1, id="a")
            await finish(queue)
            events = [event async for event in queue.events()]
            assert [event.act for event in events] == ["enqueue", "claim", "complete"]
            rest = [event async for event in queue.events(events[0].cursor)]
            assert rest == events[1:]

    async def test_events_as_they_happen(self, url: str) -> None:
        async with ackline.aio.open(url) as queues:
            queue = queues["email"]
            recorded: list[str] = []

            async def watch() -> None:
                async for event in queue.events(follow_for=None):
                    recorded.append(event.id)
                    if len(recorded) == 3:
                        return

            watching = asyncio.create_task(watch())
            for id in "abc":
                await queue.enqueue(1, id=id)
            await asyncio.wait_for(watching, 5)
            assert recorded == ["a", "b", "c"]

    async def test_events_that_are_gone(self, url: str) -> None:
        async with ackline.aio.open(url) as queues:
            queue = queues["email"]
            for id in "abc":
                await queue.enqueue(1, id=id)
            first, *_ = [event async for event in queue.events()]
            await queue.configure(max_journal=2)
            queue.sync.store.prune(queue.sync.key, 100)
            with pytest.raises(EventsDropped) as caught:
                [event async for event in queue.events(first.cursor)]
            rest = [event.id async for event in queue.events(caught.value.cursor)]
            assert rest == ["c", ""]

    async def test_a_registered_reader(self, url: str) -> None:
        async with ackline.aio.open(url) as queues:
            queue = queues["email"]
            await queue.enqueue_many([NewJob(n, id=str(n)) for n in range(3)])
            reader = queue.reader("audit")
            assert reader.cursor is None
            assert [event.id for event in await reader.read(2)] == ["0", "1"]
            await reader.save()
            again = queue.reader("audit")
            assert [event.id for event in await again.read()] == ["2"]
            assert [info.name for info in await queue.readers()] == ["audit"]
            await reader.read()
            await reader.save()
            again.cursor = "1.1"
            with pytest.raises(ReaderMoved):
                await again.save()
            await reader.forget()
            assert await queue.readers() == []

    @pytest.mark.parametrize("sort", ["sync", "async"])
    async def test_callbacks_run_on_the_loop(self, url: str, sort: str) -> None:
        async with ackline.aio.open(url) as queues:
            queue = queues["email"]
            got: asyncio.Queue[tuple[str, int]] = asyncio.Queue()

            def note(event: Event) -> None:
                got.put_nowait((event.id, threading.get_ident()))

            async def note_later(event: Event) -> None:
                note(event)

            callback = note if sort == "sync" else note_later
            async with await queue.on("completed", callback):
                await queue.enqueue(1, id="a")
                await finish(queue)
                assert await asyncio.wait_for(got.get(), 5) == ("a", threading.get_ident())
            with pytest.raises(ValueError, match="state"):
                await queue.on("exploded", callback)

    async def test_a_callback_that_fails_is_logged_and_called_again(
        self, url: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with ackline.aio.open(url) as queues:
            queue = queues["email"]
            called = asyncio.Event()
            failed: list[str] = []

            def fail_once(event: Event) -> None:
                if not failed:
                    failed.append(event.id)
                    raise ZeroDivisionError
                called.set()

            async with await queue.on("enqueue", fail_once):
                await queue.enqueue(1)
                await queue.enqueue(2)
                await asyncio.wait_for(called.wait(), 5)
            assert "a callback for events of email failed" in caplog.text

    @pytest.mark.parametrize("sort", ["sync", "async"])
    async def test_errors_of_callbacks_reach_an_error_callback(self, url: str, sort: str) -> None:
        async with ackline.aio.open(url) as queues:
            queue = queues["email"]
            errors: asyncio.Queue[Exception] = asyncio.Queue()

            def fail(event: Event) -> None:
                raise ZeroDivisionError(event.id)

            on_error = errors.put_nowait if sort == "sync" else errors.put
            async with await queue.on("error", on_error), await queue.on("enqueue", fail):
                await queue.enqueue(1, id="a")
                error = await asyncio.wait_for(errors.get(), 5)
                assert repr(error) == "ZeroDivisionError('a')"

    async def test_async_callbacks_come_one_after_the_other(self, url: str) -> None:
        async with ackline.aio.open(url) as queues:
            queue, done, at_once = queues["email"], list[str](), [0]
            all_done = asyncio.Event()

            async def note(event: Event) -> None:
                at_once.append(at_once[-1] + 1)
                # The first take longest: without an order they would be the last.
                await asyncio.sleep(0.02 if len(done) < 3 else 0)
                done.append(event.id)
                at_once.append(at_once[-1] - 1)
                if len(done) == 50:
                    all_done.set()

            async with await queue.on("enqueue", note):
                await queue.enqueue_many([NewJob(n, id=str(n)) for n in range(50)])
                await asyncio.wait_for(all_done.wait(), 10)
            assert done == [str(n) for n in range(50)]
            assert max(at_once) == 1

    async def test_a_callback_can_close_its_own_watcher(self, url: str) -> None:
        async with ackline.aio.open(url) as queues:
            queue, recorded, ended = queues["email"], list[str](), asyncio.Event()

            async def once(event: Event) -> None:
                recorded.append(event.id)
                await watcher.close()
                ended.set()

            watcher = await queue.on("enqueue", once)
            await queue.enqueue_many([NewJob(n, id=str(n)) for n in range(5)])
            await asyncio.wait_for(ended.wait(), 2)
            assert recorded == ["0"]

    async def test_closing_the_queues_closes_the_watchers(self, url: str) -> None:
        before = set(threading.enumerate())
        async with ackline.aio.open(url) as queues:
            await queues["email"].on("enqueue", print)
            assert any(thread.name == "watch email" for thread in _since(before))
        assert not any(thread.name == "watch email" for thread in _since(before))


def _since(before: set[threading.Thread]) -> set[threading.Thread]:
    return set(threading.enumerate()) - before


async def test_operating(url: str) -> None:
    async with ackline.aio.open(url) as queues:
        queue = queues["email"]
        await queue.enqueue_many([NewJob(n, id=str(n)) for n in range(6)])
        assert await queue.cancel("0") is State.CANCELLED
        await queue.edit("1", payload="changed", priority=9)
        await queue.move("2", "other")
        await queue.pause(by="me")
        assert await queue.claim() == []
        await queue.resume()
        [job] = await queue.claim(worker="w")
        assert job.payload == "changed"
        await queue.bury(job, "no")
        assert await queue.redrive_all() == 1
        with pytest.raises(WrongState):
            await queue.redrive("1")
        [job] = await queue.claim(worker="w")
        await queue.complete(job)
        await queue.keep_result("1", 600)
        assert (await queue.jobs(states=["queued"], limit=2)).cursor is not None
        assert await queue.workers() == []
        assert await queue.purge(states=["queued"]) == 3
        assert {info.key.name for info in await queues.describe()} == {"email", "other"}
        status = await queue.status("1")
        assert status is not None
        assert status.state is State.COMPLETED


async def test_a_typed_queue() -> None:
    async with ackline.aio.open("memory://") as queues:
        queue = queues.queue("numbers", payload=list[int], serde="msgpack")
        await queue.enqueue([1, 2])
        assert (await queues["numbers"].claim())[0].payload == [1, 2]
        assert repr(queue) == "<AsyncQueue 'numbers' in memory>"


async def test_handlers_are_those_of_the_sync_queue() -> None:
    async with ackline.aio.open("memory://") as queues:
        queue = queues["email"]

        @queue.handler("welcome", max_attempts=5)
        async def welcome(job: Any) -> None: ...

        assert queue.sync.handlers["welcome"].policy.max_attempts == 5


async def test_a_timeout_says_that_the_store_could_not_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with ackline.aio.open("memory://") as queues:
        queue, away = queues["email"], StoreUnavailable("away")

        def fail(*_given: object) -> None:
            raise away

        monkeypatch.setattr(queue.sync.store, "get", fail)
        monkeypatch.setattr("ackline.queue.results.MAX_WAIT", 0.05)
        with pytest.raises(Timeout) as caught:
            await queue.enqueue_and_wait(1, timeout=0.3)

        assert caught.value.__cause__ is away


async def test_a_worker_says_which_queue_it_needs() -> None:
    async with ackline.aio.open("memory://") as queues:
        with pytest.raises(ackline.ConfigError, match=r"queue\.sync"):
            ackline.Worker(queues["email"])  # type: ignore[arg-type]


class TestRefused:
    async def test_invalid_numbers_and_cursors_are_refused(self, url: str) -> None:
        half: Any = 1.5
        below: Any = -1
        async with ackline.aio.open(url) as queues:
            queue = queues["img"]
            await queue.enqueue(1)
            with pytest.raises(InvalidOption, match="limit"):
                await queue.claim(half)
            with pytest.raises(InvalidOption, match="wait"):
                await queue.claim(wait=below)
            with pytest.raises(InvalidOption, match="cursor"):
                queue.events(below)
            assert len(await queue.claim(2)) == 1


async def test_a_page_is_its_jobs(url: str) -> None:
    async with ackline.aio.open(url) as queues:
        await queues["img"].enqueue_many([1, 2])
        page = await queues["img"].jobs()
        assert len(page) == 2
        assert [job.payload for job in page] == [1, 2]
