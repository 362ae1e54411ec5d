"""What the log says about jobs that fail, and what it does not say."""

from __future__ import annotations

import gc
import json
import logging
import threading
import traceback
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import ackline
from ackline import Cancel, Dead, Retry, Snooze, State
from ackline.core import lifecycle
from ackline.core.job import Failure
from ackline.core.lifecycle import Verdict
from ackline.logs import JOB_FIELDS, JsonLines
from ackline.maintenance import StoreMonitor, recover
from ackline.maintenance.reaper import expire_worker
from ackline.worker import job_log
from ackline.worker.job_log import JobLog
from ackline.worker.leased_jobs import LeasedJob
from tests.waiting import TIMEOUT, until


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Callable[[], list[logging.LogRecord]]:
    """The lines about jobs so far."""
    caplog.set_level(logging.INFO, "ackline")
    return lambda: [record for record in caplog.records if record.name == "ackline.jobs"]


def fields(record: logging.LogRecord) -> dict[str, Any]:
    return {name: getattr(record, name) for name in JOB_FIELDS}


@pytest.mark.every_store
def test_each_failed_attempt_is_a_warning_and_the_dlq_an_error_with_the_traceback(
    queue, start, lines
):
    @queue.handler("welcome", max_attempts=2, backoff=[0.05])
    def welcome(job):
        raise ValueError("no\nway")

    worker = start(queue)
    queue.enqueue({"password": "sesame"}, kind="welcome", id="w-1")
    until(lambda: queue.status("w-1").state is State.FAILED)

    until(lambda: len(lines()) == 2)
    warning, error = lines()
    assert warning.levelno == logging.WARNING
    assert warning.getMessage() == (
        "job 'w-1' (welcome, queue work) failed: ValueError: no way; "
        "next attempt in 0.05 s (2 of 2)"
    )
    assert warning.exc_info is None
    assert error.levelno == logging.ERROR
    assert error.getMessage() == (
        "job 'w-1' (welcome, queue work) is in the DLQ after attempt 2 of 2: ValueError: no way"
    )
    assert error.exc_info is not None
    assert error.exc_info[0] is ValueError
    frames = traceback.extract_tb(error.exc_info[2])
    assert frames[-1].name == "welcome"
    found = fields(error)
    assert 0 <= found.pop("duration") < TIMEOUT
    assert found == {
        "job": "w-1",
        "kind": "welcome",
        "queue": "work",
        "attempt": 2,
        "worker": worker.id,
        "outcome": "failed",
    }
    assert not any("sesame" in str(vars(line)) for line in lines())


@pytest.mark.parametrize(
    ("returned", "level", "says"),
    [
        (Dead("never"), logging.ERROR, "is in the DLQ after attempt 1 of 3: Dead: never"),
        (Retry(3600, "busy"), logging.INFO, "asked to be retried in 3,600 s: busy (2 of 3)"),
    ],
)
def test_what_a_handler_returns_is_logged_with_its_reason(
    queue, start, lines, returned, level, says
):
    queue.handler(lambda job: returned)
    start(queue)
    queue.enqueue(1)
    [line] = until(lines)
    assert line.levelno == level
    assert line.getMessage().endswith(says)
    assert line.exc_info is None


@pytest.mark.parametrize("sort", ["sync", "async"])
def test_jobs_that_end_well_are_logged_with_debug_only(queue, start, lines, caplog, sort):
    outcomes = {"complete": 1, "snooze": Snooze(3600), "cancel": Cancel("not needed")}

    async def on_the_loop(job):
        return outcomes[job.payload]

    queue.handler(on_the_loop if sort == "async" else lambda job: outcomes[job.payload])
    start(queue)
    queue.enqueue_many(list(outcomes))
    until(lambda: queue.counts()[State.QUEUED] + queue.counts()[State.PROCESSING] == 0)
    assert lines() == []

    caplog.set_level(logging.DEBUG, "ackline")
    queue.enqueue("complete", id="again")
    [line] = until(lines)
    assert line.levelno == logging.DEBUG
    assert "job 'again' (default, queue work): attempt 1 ended as completed in" in line.getMessage()
    assert fields(line)["outcome"] == "completed"
    assert fields(line)["duration"] >= 0


def test_the_job_log_can_be_turned_off(queue, start, caplog):
    caplog.set_level(logging.DEBUG, "ackline")
    queue.handler(lambda job: Dead("never"))
    start(queue, log_jobs=False)
    queue.enqueue(1, id="a")
    until(lambda: queue.status("a").state is State.FAILED)
    assert [record for record in caplog.records if record.name == "ackline.jobs"] == []


@pytest.mark.every_store
@pytest.mark.parametrize("how", ["sweep", "claim", "supervisor"])
def test_an_expired_lease_is_logged_by_whoever_notices_first(queues, queue, lines, how):
    queue.enqueue("sesame", id="poison", max_attempts=2)
    others = [ackline.Queues(queues.store)["work"] for _ in range(3)]
    for attempt in (1, 2):
        assert queue.claim(lease=0.01, worker="gone", wait=TIMEOUT)
        until(lambda: queue.store.leases(queue.key))
        for reader in others:
            if how == "sweep":
                recover(reader)
            elif how == "claim":
                reader.claim(kinds=["another"])
            else:
                expire_worker(reader, "gone", "its process was killed")
        assert len(lines()) == attempt

    warning, error = lines()
    reason = "its process was killed" if how == "supervisor" else "lease expired"
    assert warning.levelno == logging.WARNING
    assert warning.getMessage() == (
        f"job 'poison' (default, queue work) failed: {reason} (worker gone); "
        "next attempt now (2 of 2)"
    )
    assert error.levelno == logging.ERROR
    assert error.getMessage() == (
        f"job 'poison' (default, queue work) is in the DLQ after attempt 2 of 2: {reason} "
        "(worker gone)"
    )
    assert fields(error)["worker"] == "gone"
    assert fields(error)["outcome"] == "failed"


def test_of_many_leases_that_expire_together_some_are_logged(queue, lines):
    queue.enqueue_many(range(50))
    queue.claim(50, lease=0.01)
    until(lambda: len(queue.store.leases(queue.key)) == 50)
    recover(queue)
    assert len(lines()) == 21
    assert lines()[-1].getMessage() == "queue work: … and 30 more leases expired"


@pytest.mark.every_store
def test_a_lost_lease_is_an_error_logged_once(queue, start, lines):
    running, go_on = threading.Event(), threading.Event()

    @queue.handler
    def slow(job):
        running.set()
        assert go_on.wait(TIMEOUT)

    worker = start(queue, maintenance=False)
    queue.enqueue(1, id="a")
    assert running.wait(TIMEOUT)
    queue.purge(states=[State.PROCESSING])
    go_on.set()
    [line] = until(lines)
    worker.stop()
    assert lines() == [line]
    assert line.levelno == logging.ERROR
    assert line.getMessage().startswith("job 'a' (default, queue work): its lease was lost")
    assert fields(line)["outcome"] == "lost"


def test_a_failure_after_a_cancel_request_is_no_failure(queue, start, lines):
    running = threading.Event()

    @queue.handler
    def stops(job):
        running.set()
        assert job.signal.wait(TIMEOUT)
        job.signal.raise_if_set()

    start(queue)
    queue.enqueue(1, id="a")
    assert running.wait(TIMEOUT)
    queue.cancel("a")
    until(lambda: queue.status("a").state is State.CANCELLED)
    assert lines() == []


class Flood:
    """A job log that is told of failures, without a worker."""

    def __init__(self, queue):
        queue.handler(lambda job: None)
        queue.enqueue(1)
        [job] = queue.claim()
        policy = queue.policies.of(job.record)
        self.job = LeasedJob(queue, job.record, queue.handlers["default"], policy)
        failure = Failure(act="fail", attempt=1, type="ValueError", message="no")
        self.retry = lifecycle.fail(job.record, failure, policy, queue.random)
        self.bury = lifecycle.bury(job.record, failure, policy)
        self.log = JobLog(queue.key, "worker")

    def fail(self, transition, number):
        for _ in range(number):
            self.log.settled(self.job, transition, Verdict(True, transition.to))


def test_a_flood_of_failures_is_cut_and_counted(queue, lines, caplog, monkeypatch):
    now = 1000.0
    monkeypatch.setattr(job_log, "time", SimpleNamespace(monotonic=lambda: now))
    flood = Flood(queue)
    flood.fail(flood.retry, 1334)
    flood.fail(flood.bury, 3)
    levels = [line.levelno for line in lines()]
    assert levels.count(logging.WARNING) == 100
    assert levels.count(logging.ERROR) == 3

    now += 1
    flood.log.log_omitted()
    assert caplog.messages[-1] == "queue work: … and 1,234 more in the same second"
    flood.fail(flood.retry, 1)
    assert "failed: ValueError" in caplog.messages[-1]
    now += 1
    flood.log.log_omitted()
    assert "failed: ValueError" in caplog.messages[-1]


@pytest.fixture
def failing_log():
    """A record factory that sets a field of the same name, so that no line about a job is made."""
    factory = logging.getLogRecordFactory()

    def with_job(*args, **kwargs):
        record = factory(*args, **kwargs)
        record.job = "mine"
        return record

    logging.setLogRecordFactory(with_job)
    yield
    logging.setLogRecordFactory(factory)


def test_a_record_factory_that_fails_costs_no_outcome(queue, start, caplog, failing_log):
    queue.handler(lambda job: Dead("never") if job.payload == "bad" else "fine")
    start(queue)
    queue.enqueue("bad")
    assert queue.enqueue_and_wait("good", timeout=TIMEOUT) == "fine"
    until(lambda: "the job log failed" in caplog.text)
    until(lambda: queue.counts()[State.FAILED] == 1)


def test_a_handler_is_stopped_after_a_lost_lease_that_cannot_be_logged(
    queue, start, caplog, failing_log
):
    running, stopped = threading.Event(), threading.Event()

    @queue.handler(lease=1.0)
    def slow(job):
        running.set()
        if job.signal.wait(TIMEOUT):
            stopped.set()

    start(queue, maintenance=False)
    queue.enqueue(1)
    assert running.wait(TIMEOUT)
    queue.purge(states=[State.PROCESSING])
    assert stopped.wait(TIMEOUT)
    assert "the job log failed" in caplog.text


def test_a_logged_error_does_not_keep_its_job_alive(queue, start, lines):
    kept: list[weakref.ref[Any]] = []

    class Large(Exception):
        def __init__(self) -> None:
            kept.append(weakref.ref(self))

    @queue.handler(max_attempts=3, backoff=[3600])
    def fail(job):
        raise Large

    start(queue)
    gc.collect()
    gc.disable()
    try:
        queue.enqueue(1)
        until(lines)
        until(lambda: kept[0]() is None)
    finally:
        gc.enable()


def test_json_lines_have_the_fields():
    record = logging.LogRecord("ackline.jobs", logging.ERROR, "", 1, "gone", (), None)
    record.job, record.attempt, record.worker = "Bearer abc", 2, "w"
    line = json.loads(JsonLines().format(record))
    assert (line["job"], line["attempt"], line["worker"]) == ("Bearer …", 2, "w")
    assert "duration" not in line


@pytest.mark.every_store
def test_kinds_without_a_handler_are_logged_once(queues, queue, start, caplog):
    queue.handler("known")(lambda job: None)
    start(queue, maintenance=False)
    monitor = StoreMonitor([queue], 60.0)
    queue.enqueue_many([1, 2, 3], kind="unkown")
    for _ in range(2):
        monitor.step()
    assert (
        caplog.messages.count(
            "queue work: no live worker has a handler for kind 'unkown'; jobs waiting: 3"
        )
        == 1
    )


def test_kinds_that_another_worker_handles_are_not_logged(queue, queues, start, caplog):
    other = ackline.Queues(queues.store, queues.tenant)["work"]
    queue.handler("mine")(lambda job: None)
    other.handler("theirs")(lambda job: job.signal.wait(TIMEOUT))
    start(queue, maintenance=False)
    start(other, maintenance=False, concurrency=1)
    queue.enqueue_many([1] * 3, kind="theirs")
    StoreMonitor([queue], 60.0).step()
    assert "no live worker" not in caplog.text


def test_an_exception_that_is_called_retry_is_a_failure(queue, start, lines):
    retry = type("Retry", (Exception,), {})

    @queue.handler(backoff=[3600])
    def handle(job):
        raise retry("busy")

    start(queue)
    queue.enqueue(1)
    [line] = until(lines)
    assert line.levelno == logging.WARNING
    assert "failed: Retry: busy; next attempt" in line.getMessage()
