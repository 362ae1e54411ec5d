from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

import ackline
from ackline import (
    Cancel,
    Dead,
    Done,
    Job,
    JobFailed,
    Queue,
    Queued,
    Queues,
    Retry,
    Snooze,
    State,
    aio,
)
from ackline.testing import (
    ManualClock,
    assert_enqueued,
    drain,
    inline,
    memory_queues,
    modes,
    refute_enqueued,
)
from ackline.worker.hooks import Execution, Hooks


class Mail(msgspec.Struct):
    to: str


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def queues(clock: ManualClock) -> Iterator[Queues]:
    with memory_queues(clock) as opened:
        yield opened


@pytest.fixture
def queue(queues: Queues) -> Queue[Any, Any]:
    return queues["email"]


def state_of(queue: Queue[Any, Any], id: str) -> State:
    job = queue.status(id)
    assert job is not None
    return job.state


class TestDrain:
    def test_runs_everything_queued_in_order(self, queue: Queue[Any, Any]) -> None:
        ran: list[int] = []

        @queue.handler
        def handle(job: Job[int]) -> int:
            ran.append(job.payload)
            return job.payload * 2

        queue.enqueue_many(range(3))
        queue.enqueue(9, id="urgent", priority=9)
        drained = drain(queue)
        assert ran == [9, 0, 1, 2]
        assert (drained.runs, drained["completed"], drained["failed"]) == (4, 4, 0)
        assert queue.result("urgent") == 18

    def test_runs_async_handlers(self, queue: Queue[Any, Any]) -> None:
        @queue.handler
        async def handle(job: Job[int]) -> int:
            await asyncio.sleep(0)
            return job.payload + 1

        queue.enqueue(1, id="a")
        drain(queue)
        assert queue.result("a") == 2

    def test_runs_async_handlers_from_within_a_loop(self, queue: Queue[Any, Any]) -> None:
        @queue.handler
        async def handle(job: Job[int]) -> int:
            if job.payload < 0:
                raise ValueError("negative")
            return job.payload + 1

        async def main() -> None:
            queue.enqueue(1, id="a")
            queue.enqueue(-1, id="b", max_attempts=1)
            drain(queue)

        asyncio.run(main())
        assert queue.result("a") == 2
        with pytest.raises(JobFailed, match="ValueError: negative"):
            queue.result("b")

    def test_runs_what_handlers_enqueue(self, queue: Queue[Any, Any]) -> None:
        @queue.handler
        def handle(job: Job[int]) -> None:
            if job.payload:
                queue.enqueue(job.payload - 1)

        queue.enqueue(4)
        assert drain(queue).runs == 5

    @pytest.mark.parametrize(
        ("outcome", "state"),
        [
            (Done(1, result_ttl=5), "completed"),
            (Retry(delay=5), "failing"),
            (Snooze(5), "scheduled"),
            (Cancel(), "cancelled"),
            (Dead("no use"), "failed"),
        ],
    )
    def test_outcomes_lead_where_they_do_in_a_worker(
        self, queue: Queue[Any, Any], outcome: Any, state: str
    ) -> None:
        queue.handler(lambda job: outcome)
        queue.enqueue(1, id="a")
        assert drain(queue)[state] == 1
        assert state_of(queue, "a") == state

    @pytest.mark.parametrize("outcome", [Retry(5), Snooze(5), Cancel(), Dead()], ids=repr)
    def test_a_raised_outcome_counts_as_one_that_is_returned(
        self, queue: Queue[Any, Any], outcome: Retry | Snooze | Cancel | Dead
    ) -> None:
        seen: list[tuple[Any, BaseException | None]] = []

        @queue.handler
        def handle(job: Job[int]) -> None:
            if job.payload == 1:
                raise outcome

        queue.enqueue(1, id="a")
        after = [lambda job, execution: seen.append((execution.result, execution.error))]
        drain(queue, hooks=Hooks(after=after), raise_errors=True)
        assert seen == [(outcome, None)]
        assert state_of(queue, "a") != "completed"

    def test_a_retry_waits_for_the_clock(self, queue: Queue[Any, Any], clock: ManualClock) -> None:
        @queue.handler("default", max_attempts=2, backoff=[10])
        def handle(job: Job[int]) -> str:
            if job.attempt == 1:
                raise ConnectionError("away")
            return "second time"

        queue.enqueue(1, id="a")
        assert drain(queue)["failing"] == 1
        assert drain(queue).runs == 0
        clock.advance(10)
        assert drain(queue)["completed"] == 1
        assert queue.result("a") == "second time"

    def test_until_idle_moves_the_clock_past_every_delay(
        self, queue: Queue[Any, Any], clock: ManualClock
    ) -> None:
        @queue.handler("default", max_attempts=3, backoff=[10, 100])
        def handle(job: Job[int]) -> None:
            raise ConnectionError("away")

        start = clock.now()
        queue.enqueue(1, id="a")
        queue.enqueue(1, id="b", delay=3600)
        drained = drain(queue, until_idle=clock)
        assert (drained.runs, drained["failing"], drained["failed"]) == (6, 4, 2)
        assert clock.now() == pytest.approx(start + 3600 + 110)

    def test_errors_are_kept_with_the_job_or_raised(self, queue: Queue[Any, Any]) -> None:
        @queue.handler("default", max_attempts=1)
        def handle(job: Job[int]) -> None:
            raise ZeroDivisionError("by zero")

        queue.enqueue(1, id="a")
        drain(queue)
        with pytest.raises(JobFailed, match="ZeroDivisionError: by zero"):
            queue.result("a")
        queue.enqueue(1, id="b")
        with pytest.raises(ZeroDivisionError):
            drain(queue, raise_errors=True)
        assert state_of(queue, "b") is State.FAILED

    @pytest.mark.parametrize("sort", ["sync", "async"])
    def test_a_handler_that_exits_fails_as_in_a_worker(
        self, queue: Queue[Any, Any], sort: str
    ) -> None:
        def leave(job: Job[Any]) -> None:
            sys.exit(3)

        async def leave_async(job: Job[Any]) -> None:
            sys.exit(3)

        queue.handler(max_attempts=1)(leave if sort == "sync" else leave_async)
        queue.enqueue(1, id="a")
        assert drain(queue)["failed"] == 1
        job = queue.status("a")
        assert job is not None
        assert job.error is not None
        assert (job.error.type, job.error.message) == ("SystemExit", "3")
        queue.redrive("a")
        with pytest.raises(SystemExit):
            drain(queue, raise_errors=True)

    @pytest.mark.parametrize("error", [KeyboardInterrupt, pytest.fail.Exception])
    def test_what_ends_the_test_is_raised_and_leaves_no_job_leased(
        self, queue: Queue[Any, Any], error: type[BaseException]
    ) -> None:
        @queue.handler
        def interrupted(job: Job[Any]) -> None:
            raise error

        queue.enqueue(1, id="a")
        with pytest.raises(error):
            drain(queue)
        assert queue.counts()[State.PROCESSING] == 0

    def test_a_result_that_cannot_be_kept_fails_the_job(self, queue: Queue[Any, Any]) -> None:
        queue.handler("default", max_attempts=1)(lambda job: object())
        queue.enqueue(1, id="a")
        drain(queue)
        with pytest.raises(JobFailed, match="json"):
            queue.result("a")

    def test_hooks_see_and_change_what_handlers_do(self, queue: Queue[Any, Any]) -> None:
        seen: list[str] = []

        def after(job: Job[Any], execution: Execution) -> None:
            execution.result = f"{execution.result}, and more"

        queue.handler(lambda job: "done")
        queue.enqueue(1, id="a")
        drain(queue, hooks=Hooks(before=[lambda job: seen.append(job.id)], after=[after]))
        assert seen == ["a"]
        assert queue.result("a") == "done, and more"

    def test_a_sync_handler_past_its_time_fails(self, queue: Queue[Any, Any]) -> None:
        @queue.handler("default", timeout=0.01, max_attempts=1)
        def handle(job: Job[int]) -> str:
            assert job.signal.wait(5)
            return "too late"

        queue.enqueue(1, id="a")
        drain(queue)
        with pytest.raises(JobFailed, match="HandlerTimeout"):
            queue.result("a")

    def test_an_async_handler_past_its_time_is_cancelled(self, queue: Queue[Any, Any]) -> None:
        @queue.handler("default", timeout=0.01, max_attempts=1)
        async def handle(job: Job[int]) -> None:
            await asyncio.sleep(60)

        queue.enqueue(1, id="a")
        began = time.monotonic()
        drain(queue)
        assert time.monotonic() - began < 30
        with pytest.raises(JobFailed, match="HandlerTimeout"):
            queue.result("a")

    def test_kinds_without_a_handler_are_left(self, queue: Queue[Any, Any]) -> None:
        queue.handler("known")(lambda job: None)
        queue.enqueue(1, kind="known")
        queue.enqueue(1, kind="unknown", id="left")
        assert drain(queue).runs == 1
        assert state_of(queue, "left") is State.QUEUED

    def test_an_endless_one_is_found(
        self, queue: Queue[Any, Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(modes, "MAX_RUNS", 50)
        queue.handler(lambda job: [queue.enqueue(1).id])
        queue.enqueue(1)
        with pytest.raises(AssertionError, match="50"):
            drain(queue)


class TestInline:
    def test_enqueue_runs_the_handler_at_once(self, queue: Queue[Any, Any]) -> None:
        sent: list[str] = []
        queue.handler(lambda job: sent.append(job.payload))
        with inline(queue):
            assert queue.enqueue("a") == Queued(queue.jobs().jobs[0].id)
            assert sent == ["a"]
            queue.enqueue_many(["b", "c"])
            assert sent == ["a", "b", "c"]
        queue.enqueue("d")
        assert sent == ["a", "b", "c"]

    def test_enqueue_and_wait_answers_at_once(self, queue: Queue[Any, Any]) -> None:
        queue.handler(lambda job: job.payload.upper())
        with inline(queue):
            assert queue.enqueue_and_wait("shout", timeout=5) == "SHOUT"

    def test_other_queues_are_left_alone(self, queues: Queues) -> None:
        for name in ("one", "other"):
            queues[name].handler(lambda job: None)
        with inline(queues["one"]):
            queues["one"].enqueue(1)
            queues["other"].enqueue(1)
        assert queues["one"].counts()[State.COMPLETED] == 1
        assert queues["other"].counts()[State.QUEUED] == 1

    def test_several_queues_and_what_their_handlers_enqueue(self, queues: Queues) -> None:
        one, other = queues["one"], queues["other"]
        done: list[str] = []
        one.handler(lambda job: other.enqueue(job.payload).id)
        other.handler(lambda job: done.append(job.payload))
        with inline(one, other):
            one.enqueue("through both")
        assert done == ["through both"]

    def test_a_long_chain_of_jobs_runs_to_its_end(self, queues: Queues) -> None:
        here, there = queues["here"], queues["there"]

        def enqueue_next(job: Job[Any]) -> None:
            if job.payload < 1500:
                (there if job.payload % 3 else here).enqueue(job.payload + 1)

        here.handler(max_attempts=1)(enqueue_next)
        there.handler(max_attempts=1)(enqueue_next)
        with inline(here, there):
            here.enqueue(0)
        completed = here.counts()[State.COMPLETED] + there.counts()[State.COMPLETED]
        assert completed == 1501

    def test_a_long_chain_of_async_jobs_enqueued_on_a_loop(self, queue: Queue[Any, Any]) -> None:
        @queue.handler(max_attempts=1)
        async def enqueue_next(job: Job[Any]) -> None:
            if job.payload < 200:
                queue.enqueue(job.payload + 1)

        async def main() -> None:
            queue.enqueue(0)

        with inline(queue):
            asyncio.run(main())
        assert queue.counts()[State.COMPLETED] == 201

    def test_a_handler_may_wait_for_a_job_of_its_own_queue(self, queue: Queue[Any, Any]) -> None:
        @queue.handler("outer")
        def outer(job: Job[Any]) -> Any:
            return queue.enqueue_and_wait(job.payload, kind="inner", timeout=1)

        queue.handler("inner")(lambda job: job.payload * 2)
        with inline(queue):
            assert queue.enqueue_and_wait(4, kind="outer", timeout=1) == 8

    def test_a_delayed_job_waits_for_its_time(
        self, queue: Queue[Any, Any], clock: ManualClock
    ) -> None:
        queue.handler(lambda job: None)
        with inline(queue):
            queue.enqueue(1, id="a", delay=60)
        assert state_of(queue, "a") is State.SCHEDULED

    def test_errors_can_be_raised_to_the_caller(self, queue: Queue[Any, Any]) -> None:
        @queue.handler
        def handle(job: Job[Any]) -> None:
            raise ValueError("bad address")

        with inline(queue):
            queue.enqueue(1, id="a")
        assert state_of(queue, "a") is State.FAILING
        with inline(queue, raise_errors=True), pytest.raises(ValueError, match="bad address"):
            queue.enqueue(1)


class TestAssertions:
    def test_finds_by_kind_payload_id_state_and_count(self, queue: Queue[Any, Any]) -> None:
        queue.enqueue({"to": "a"}, kind="welcome", id="1")
        queue.enqueue({"to": "b"}, kind="welcome", delay=5)
        assert [job.id for job in assert_enqueued(queue, kind="welcome", payload={"to": "a"})] == [
            "1"
        ]
        assert_enqueued(queue, id="1", state="queued")
        assert_enqueued(queue, kind="welcome", count=2)
        assert_enqueued(queue, state=State.SCHEDULED, count=1)
        assert_enqueued(queue, kind="goodbye", count=0)
        refute_enqueued(queue, kind="goodbye")
        refute_enqueued(queue, payload={"to": "c"})

    def test_finds_what_has_run_already(self, queue: Queue[Any, Any]) -> None:
        queue.handler(lambda job: None)
        queue.enqueue({"to": "a"})
        drain(queue)
        assert_enqueued(queue, payload={"to": "a"}, state="completed")

    def test_a_payload_of_a_type_is_found_as_its_type_or_plain(
        self, queue: Queue[Any, Any]
    ) -> None:
        queue.enqueue(Mail("a"))
        assert_enqueued(queue, payload=Mail("a"))
        assert_enqueued(queue, payload={"to": "a"})
        refute_enqueued(queue, payload=Mail("b"))

    def test_a_payload_of_none_is_a_payload(self, queue: Queue[Any, Any]) -> None:
        queue.enqueue(0)
        refute_enqueued(queue, payload=None)
        queue.enqueue(None)
        assert_enqueued(queue, payload=None)

    def test_says_what_is_there(self, queue: Queue[Any, Any]) -> None:
        queue.enqueue({"to": "a"}, kind="welcome", id="1")
        with pytest.raises(AssertionError) as caught:
            assert_enqueued(queue, kind="goodbye", payload={"to": "a"})
        assert str(caught.value) == (
            "expected a job with kind 'goodbye', payload {'to': 'a'} in <Queue 'email' in memory>, "
            "found 0. These are there:\n"
            "  '1': kind 'welcome', queued, payload {\"to\":\"a\"}"
        )

    def test_says_that_nothing_is_there(self, queue: Queue[Any, Any]) -> None:
        with pytest.raises(AssertionError, match=r"found 0\. The queue is empty\."):
            assert_enqueued(queue, count=2)

    def test_a_refuted_one_is_shown(self, queue: Queue[Any, Any]) -> None:
        queue.enqueue_many([{"n": n} for n in range(30)], kind="spam")
        with pytest.raises(AssertionError, match="spam") as caught:
            refute_enqueued(queue, kind="spam")
        assert "… and 10 more" in str(caught.value)

    def test_looks_at_every_page(self, queue: Queue[Any, Any]) -> None:
        queue.enqueue_many(range(1203))
        assert_enqueued(queue, payload=1202)
        assert_enqueued(queue, count=1203)


def test_what_writes_keys_with_its_jobs_works_inline() -> None:
    with ackline.open("memory://") as here, ackline.open("memory://") as there:
        done: list[Any] = []
        target = there["email"]
        target.handler(lambda job: done.append(job.payload))
        here["email"].enqueue(7)

        with inline(target):
            ackline.Relay(here["email"], target, maintenance=False).drain()

        assert done == [7]


class TestOtherFaces:
    def test_a_queue_for_asyncio(self, queues: Queues) -> None:
        work = aio.AsyncQueues(queues)["email"]

        @work.handler
        async def handle(job: Job[int]) -> int:
            return job.payload

        asyncio.run(work.enqueue(1, id="a"))
        assert_enqueued(work, id="a", payload=1)
        refute_enqueued(work, id="b")
        assert drain(work)["completed"] == 1
        with inline(work):
            queues["email"].enqueue(2, id="b")
        assert state_of(queues["email"], "b") == "completed"

    def test_a_task_means_the_jobs_of_its_kind(self) -> None:
        app = ackline.App("memory://")

        @app.task(kind="welcome")
        def welcome(to: str) -> str:
            return to

        with app.open():
            app.queues["default"].enqueue(1, kind="other")
            refute_enqueued(welcome)
            welcome.enqueue("ann")
            assert_enqueued(welcome, payload={"to": "ann"}, count=1)
            assert drain(welcome)["completed"] == 1
