"""What handlers return and raise, and what becomes of their jobs."""

from __future__ import annotations

import asyncio
import contextvars
import statistics
import threading
import time
from datetime import timedelta

import msgspec
import pytest

import ackline
from ackline import (
    Cancel,
    Dead,
    Done,
    Hooks,
    Job,
    JobCancelled,
    JobFailed,
    MaxAttemptsExceeded,
    Retry,
    Snooze,
    State,
)
from ackline.queues import Queues
from tests.waiting import TIMEOUT, until


class Email(msgspec.Struct):
    to: str


def test_a_sync_handler_runs_and_its_return_value_is_the_result(queue, start):
    @queue.handler
    def double(job):
        return job.payload * 2

    start(queue)
    assert queue.enqueue_and_wait(21, timeout=TIMEOUT) == 42


@pytest.mark.every_store
def test_an_async_handler_runs_and_its_return_value_is_the_result(queue, start):
    @queue.handler
    async def double(job):
        await asyncio.sleep(0)
        return job.payload * 2

    start(queue)
    assert queue.enqueue_and_wait(21, timeout=TIMEOUT) == 42


def test_none_is_a_result(queue, start):
    @queue.handler
    def nothing(job):
        return None

    start(queue)
    assert queue.enqueue_and_wait(1, id="a", timeout=TIMEOUT) is None
    assert queue.enqueue(1, id="a") == ackline.Completed("a", None)


def test_a_payload_is_decoded_into_the_annotated_type(queue, start):
    @queue.handler("email")
    def send(job: Job[Email]) -> str:
        return job.payload.to

    start(queue)
    assert queue.enqueue_and_wait({"to": "ann"}, kind="email", timeout=TIMEOUT) == "ann"


def test_a_payload_of_the_wrong_type_fails_the_attempt_with_the_reason(queue, start):
    @queue.handler("email", max_attempts=1)
    def send(job: Job[Email]) -> str:
        return job.payload.to

    start(queue)
    other_queue = ackline.Queues(queue.store)[queue.name]
    with pytest.raises(JobFailed, match="`to`"):
        other_queue.enqueue_and_wait({}, kind="email", timeout=TIMEOUT)


def test_an_unresolvable_payload_type_is_refused_at_registration(queue):
    class Local(msgspec.Struct):
        to: str

    with pytest.raises(ackline.ConfigError, match="top"):

        @queue.handler("email")
        def send(job: Job[Local]) -> str:
            return job.payload.to


@pytest.mark.every_store
def test_an_exception_is_retried_until_attempts_are_spent_then_it_is_in_the_dlq(queue, start):
    recorded = []

    @queue.handler(max_attempts=3, backoff=0)
    def broken(job):
        recorded.append(job.attempt)
        raise RuntimeError("no luck")

    start(queue)
    with pytest.raises(JobFailed) as caught:
        queue.enqueue_and_wait(1, id="a", timeout=TIMEOUT)

    assert recorded == [1, 2, 3]
    assert caught.value.failure is not None
    assert caught.value.failure.type == "RuntimeError"
    assert "no luck" in caught.value.failure.traceback
    assert queue.status("a").state is State.FAILED


@pytest.mark.parametrize("sort", ["sync", "async"])
def test_a_failed_attempt_can_succeed_later(queue, start, sort):
    def flaky(job):
        if job.attempt < 3:
            raise RuntimeError("not yet")
        return job.attempt

    async def flaky_async(job):
        return flaky(job)

    queue.handler("default", max_attempts=5, backoff=0)(flaky if sort == "sync" else flaky_async)
    start(queue)
    assert queue.enqueue_and_wait(1, timeout=TIMEOUT) == 3


def test_retry_leads_to_another_attempt(queue, start):
    @queue.handler
    def again(job):
        return Retry(delay=0) if job.attempt == 1 else "second"

    start(queue)
    assert queue.enqueue_and_wait(1, timeout=TIMEOUT) == "second"


@pytest.mark.every_store
def test_snooze_costs_no_attempt(queue, start):
    runs = []

    @queue.handler(max_attempts=1)
    def later(job):
        runs.append(job.attempt)
        return Snooze(0.01) if len(runs) < 3 else "awake"

    start(queue)
    assert queue.enqueue_and_wait(1, timeout=TIMEOUT) == "awake"
    assert runs == [1, 1, 1]


def test_cancel_ends_as_cancelled(queue, start):
    @queue.handler
    def unwanted(job):
        return Cancel("nobody wants it")

    start(queue)
    with pytest.raises(JobCancelled):
        queue.enqueue_and_wait(1, timeout=TIMEOUT)


def test_dead_goes_to_the_dlq_whatever_attempts_remain(queue, start):
    @queue.handler(max_attempts=10)
    def hopeless(job):
        return Dead("never")

    start(queue)
    with pytest.raises(JobFailed, match="never"):
        queue.enqueue_and_wait(1, id="a", timeout=TIMEOUT)
    assert queue.status("a").attempt == 1


class TestRaisedOutcomes:
    @pytest.fixture(params=["sync", "async"])
    def handle(self, request, queue):
        """Register what a handler does, as a sync or an async one."""

        def register(act, **options):
            async def act_async(job):
                return act(job)

            queue.handler("default", **options)(act if request.param == "sync" else act_async)

        return register

    def test_retry_leads_to_another_attempt(self, queue, start, handle):
        def again(job):
            if job.attempt == 1:
                raise Retry(timedelta(0), "not yet")
            return "second"

        handle(again)
        start(queue)
        assert queue.enqueue_and_wait(1, id="a", timeout=TIMEOUT) == "second"
        [failure] = queue.status("a").history
        assert (failure.type, failure.message) == ("Retry", "not yet")

    def test_snooze_costs_no_attempt(self, queue, start, handle):
        runs = []

        def later(job):
            runs.append(job.attempt)
            if len(runs) < 3:
                raise Snooze(timedelta(milliseconds=10))
            return "awake"

        handle(later, max_attempts=1)
        start(queue)
        assert queue.enqueue_and_wait(1, timeout=TIMEOUT) == "awake"
        assert runs == [1, 1, 1]

    def test_cancel_and_dead_end_the_job(self, queue, start, handle):
        def end(job):
            raise Cancel("nobody wants it") if job.payload == "cancel" else Dead("never")

        handle(end, max_attempts=10)
        start(queue)
        with pytest.raises(JobCancelled):
            queue.enqueue_and_wait("cancel", timeout=TIMEOUT)
        with pytest.raises(JobFailed, match="never"):
            queue.enqueue_and_wait("dead", timeout=TIMEOUT)

    def test_a_reason_may_be_an_error(self, queue, start, handle):
        def unwanted(job):
            raise Cancel(LookupError("no such customer"))  # type: ignore[arg-type]

        handle(unwanted)
        start(queue)
        with pytest.raises(JobCancelled):
            queue.enqueue_and_wait(1, id="a", timeout=TIMEOUT)
        [cancelled] = [event for event in queue.events() if event.act == ackline.Act.CANCEL]
        assert cancelled.note == "no such customer"

    def test_a_hook_sees_a_result_and_the_log_tells_of_no_error(self, queue, start, handle, caplog):
        seen = []

        def unwanted(job):
            raise Cancel("nobody wants it")

        handle(unwanted)
        after = [lambda job, execution: seen.append((execution.result, execution.error))]
        start(queue, hooks=Hooks(after=after))
        with pytest.raises(JobCancelled):
            queue.enqueue_and_wait(1, timeout=TIMEOUT)
        assert seen == [(Cancel("nobody wants it"), None)]
        of_jobs = [record for record in caplog.records if record.name == "ackline.jobs"]
        assert [record for record in of_jobs if record.levelname != "INFO"] == []

    def test_a_hook_may_raise_one_too(self, queue, start, handle):
        def stop(job, execution):
            raise Cancel("no longer wanted")

        handle(lambda job: "done")
        start(queue, hooks=Hooks(after=[stop]))
        with pytest.raises(JobCancelled):
            queue.enqueue_and_wait(1, timeout=TIMEOUT)


def test_done_sets_the_result_and_how_long_it_is_kept(queue, start):
    @queue.handler
    def done(job):
        return Done("kept", result_ttl=timedelta(seconds=5))

    start(queue)
    assert queue.enqueue_and_wait(1, id="a", timeout=TIMEOUT) == "kept"
    record = queue.status("a").record
    assert record.expires_at - record.finished_at == pytest.approx(5)


@pytest.mark.filterwarnings("error")
def test_a_returned_coroutine_fails_the_attempt_with_a_hint(queue, start):
    def decorated(function):
        def call(job):
            return function(job)

        return call

    @queue.handler(max_attempts=1)
    @decorated
    async def greet(job):
        return "hello"

    queue.enqueue(1, id="a")
    start(queue)
    with pytest.raises(JobFailed, match="coroutine"):
        queue.result("a", timeout=TIMEOUT)


def test_a_result_that_cannot_be_encoded_fails_the_attempt(queue, start):
    @queue.handler(max_attempts=1)
    def odd(job):
        return object()

    start(queue)
    with pytest.raises(JobFailed, match="json"):
        queue.enqueue_and_wait(1, timeout=TIMEOUT)


@pytest.mark.parametrize(
    "outcome",
    [
        Snooze(float("nan")),
        Snooze("soon"),  # type: ignore[arg-type]
        Retry(delay=-1),
        Done("x", result_ttl=-5),
    ],
    ids=repr,
)
def test_an_invalid_outcome_fails_the_attempt(queue, start, outcome):
    queue.handler("default", max_attempts=1)(lambda job: outcome)
    start(queue)
    with pytest.raises(JobFailed, match="InvalidOption"):
        queue.enqueue_and_wait(1, timeout=TIMEOUT)


def test_only_kinds_with_a_handler_are_claimed(queue, start):
    @queue.handler("known")
    def known(job):
        return "done"

    queue.enqueue(1, kind="unknown", id="other", priority=9)
    start(queue)
    assert queue.enqueue_and_wait(1, kind="known", timeout=TIMEOUT) == "done"
    assert queue.status("other").state is State.QUEUED
    assert queue.status("other").attempt == 0


def test_each_async_job_has_its_own_task_and_context(queue, start):
    variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable")
    leaked = []
    tasks = set()

    @queue.handler
    async def isolated(job):
        leaked.append(variable.get(None))
        variable.set(job.payload)
        tasks.add(asyncio.current_task())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await asyncio.sleep(60)
        return variable.get()

    start(queue, concurrency=2)
    for number in range(5):
        assert queue.enqueue_and_wait(number, timeout=TIMEOUT) == number
    assert leaked == [None] * 5
    assert len(tasks) == 5


@pytest.mark.parametrize("sort", ["sync", "async"])
def test_no_job_sees_what_another_has_set_in_its_context(queue, start, sort):
    """Also not when one begins where another ends, in its thread or its task."""
    tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="nobody's")
    tenant.set("the worker's")
    recorded = []

    def see(job):
        recorded.append(tenant.get())
        tenant.set(job.payload)

    async def see_async(job):
        see(job)
        await asyncio.sleep(0)

    queue.handler("default")(see if sort == "sync" else see_async)
    queue.enqueue_many(["ann's", "bob's"] * 5)
    start(queue, concurrency=1)
    until(lambda: len(recorded) == 10)
    assert recorded == ["the worker's"] * 10


@pytest.mark.every_store
def test_a_worker_serves_several_queues(queues, start):
    for name in ("a", "b"):
        queues[name].handler(lambda job: job.queue)

    start(queues["a"], queues["b"])
    assert queues["a"].enqueue_and_wait(1, timeout=TIMEOUT) == "a"
    assert queues["b"].enqueue_and_wait(1, timeout=TIMEOUT) == "b"


@pytest.mark.parametrize("sort", ["sync", "async"])
def test_concurrency_bounds_how_many_run_at_once(queue, start, sort):
    limit, running, most = 3, 0, 0
    lock = threading.Lock()
    full = threading.Event()
    go_on = threading.Event()

    def enter():
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
            if running == limit:
                full.set()

    def leave():
        nonlocal running
        with lock:
            running -= 1

    def wait(job):
        enter()
        go_on.wait(TIMEOUT)
        leave()

    async def wait_async(job):
        enter()
        while not go_on.is_set():
            await asyncio.sleep(0.001)
        leave()

    queue.handler(wait if sort == "sync" else wait_async)
    queue.enqueue_many(range(10))
    start(queue, concurrency=limit)

    assert full.wait(TIMEOUT)
    go_on.set()
    queue.enqueue_and_wait("last", priority=0, timeout=TIMEOUT)
    assert most == limit


def test_short_blocking_handlers_run_side_by_side(queue, start):
    running, at_once = set(), []

    @queue.handler
    def short(job):
        running.add(job.id)
        at_once.append(len(running))
        time.sleep(0.001)  # what a quick query takes
        running.discard(job.id)

    queue.enqueue_many(range(1000))
    start(queue, concurrency=16)
    queue.enqueue_and_wait("last", priority=0, timeout=TIMEOUT)
    assert 2 < statistics.median(at_once) <= 16


def test_jobs_that_wait_too_long_for_a_thread_are_released_to_other_workers(
    queues, start, tmp_path
):
    """A burst of quick jobs makes a worker fetch far ahead; then slow ones come."""
    queue, other = queues["work"], Queues(queues.store)["work"]
    go_on = threading.Event()
    ended = threading.Event()

    @queue.handler
    def work(job):
        if job.payload == "slow":
            go_on.wait(TIMEOUT)

    @other.handler
    def end_handler(job):
        if job.payload == "slow":
            ended.set()

    queue.enqueue_many(["quick"] * 3000)
    queue.enqueue_many(["slow"] * 50)
    start(queue, concurrency=1)
    for event in queue.events(follow_for=TIMEOUT):
        if event.act == "complete" and queue.counts()[State.COMPLETED] >= 3000:
            break
    start(other, concurrency=4)
    assert ended.wait(TIMEOUT)
    go_on.set()


def test_slow_handlers_do_not_prefetch_jobs(queue, start):
    started, go_on = threading.Event(), threading.Event()

    @queue.handler
    def slow(job):
        started.set()
        go_on.wait(TIMEOUT)

    queue.enqueue_many(range(50))
    start(queue, concurrency=2)
    assert started.wait(TIMEOUT)
    leased = queue.counts()[State.PROCESSING]
    go_on.set()
    assert leased <= 4


@pytest.mark.every_store
def test_max_retries_error_is_told_apart_from_a_job_that_was_given_up(queue, start):
    """`instanceof MaxRetriesError` decides whether the job goes to the dead letters."""

    @queue.handler("retried", max_attempts=2, backoff=[0])
    def retried(job):
        raise ValueError("boom")

    @queue.handler("given up", max_attempts=2)
    def given_up(job):
        return Dead("no such address")

    start(queue)
    with pytest.raises(MaxAttemptsExceeded, match="ValueError: boom") as caught:
        queue.enqueue_and_wait(1, kind="retried", id="a", timeout=TIMEOUT)
    with pytest.raises(JobFailed, match="no such address") as other:
        queue.enqueue_and_wait(1, kind="given up", id="b", timeout=TIMEOUT)

    used_up, given_up_for = caught.value.failure, other.value.failure
    assert used_up is not None
    assert given_up_for is not None
    assert used_up.dlq_reason == "max_attempts"
    assert "raise ValueError" in used_up.traceback
    assert type(other.value) is JobFailed
    assert given_up_for.dlq_reason == "dead"
    assert [ended.dlq_reason for ended in queue.status("a").history] == [None, "max_attempts"]
