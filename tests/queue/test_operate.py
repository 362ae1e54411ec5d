from __future__ import annotations

import contextlib
import queue as _queue
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.queue.conftest import bury_all
from tests.waiting import until

import ackline
from ackline import (
    Act,
    Event,
    InvalidOption,
    JobChanged,
    JobNotFound,
    LeaseLost,
    NewJob,
    Queue,
    Queues,
    Snooze,
    State,
    WrongState,
)
from ackline.core.config import Policy
from ackline.core.job import DlqReason
from ackline.core.lifecycle import settle
from ackline.queue.settle import failure_from
from ackline.testing import ManualClock


@pytest.fixture
def queue(queues: Queues) -> Queue[Any, Any]:
    return queues["email"]


def state_of(queue: Queue[Any, Any], id: str) -> State:
    job = queue.status(id)
    assert job is not None
    return job.state


def bring_to_state(queue: Queue[Any, Any], state: str) -> None:
    """A job `a` in the state wanted."""
    queue.enqueue(1, id="a", delay=60 if state == "scheduled" else 0)
    if state in ("queued", "scheduled"):
        return
    if state == "cancelled":
        queue.cancel("a")
        return
    [job] = queue.claim()
    match state:
        case "failing":
            queue.fail(job, "not yet", delay=60)
        case "failed":
            queue.bury(job, "never")
        case "completed":
            queue.complete(job, "done")
        case _:
            assert state == "processing"


STATES = ["queued", "scheduled", "failing", "processing", "completed", "failed", "cancelled"]


class TestCancel:
    @pytest.mark.parametrize("state", ["queued", "scheduled", "failing"])
    def test_a_waiting_job_never_runs(
        self, queue: Queue[Any, Any], clock: ManualClock, state: str
    ) -> None:
        bring_to_state(queue, state)
        assert queue.cancel("a", by="me") is State.CANCELLED
        clock.advance(60)
        assert queue.claim() == []
        assert [event.by for event in queue.events()][-1] == "me"

    def test_a_running_job_is_asked_to_stop(self, queue: Queue[Any, Any]) -> None:
        queue.enqueue(1, id="a")
        [job] = queue.claim()
        assert queue.cancel("a") is State.PROCESSING
        status = queue.status("a")
        assert status is not None
        assert status.record.cancel_requested
        queue.complete(job, "finished all the same")
        assert queue.result("a") == "finished all the same"

    @pytest.mark.parametrize("way", ["release", "snooze", "fail", "settle"])
    def test_a_job_that_gives_in_is_kept_as_the_queue_wants_it(
        self, queue: Queue[Any, Any], way: str
    ) -> None:
        queue.configure(policy=Policy(keep_cancelled=5.0))
        bring_to_state(queue, "processing")
        [job] = queue.jobs(states=["processing"]).jobs
        queue.cancel("a")

        match way:
            case "release":
                queue.release(job)
            case "snooze":
                queue.snooze(job, 10)
            case "fail":
                queue.fail(job, "stopped")
            case _:
                failure, policy = failure_from(job.record, ""), queue.policies.of(job.record)
                outcome = settle(job.record, Snooze(10), None, failure, policy, queue.random)
                queue.apply([outcome])

        status = queue.status("a")
        assert status is not None
        assert status.state is State.CANCELLED
        finished, expires = status.record.finished_at, status.record.expires_at
        assert finished is not None
        assert expires == finished + 5.0

    @pytest.mark.parametrize("state", ["completed", "failed", "cancelled"])
    def test_a_finished_job_stays_as_it_is(self, queue: Queue[Any, Any], state: str) -> None:
        bring_to_state(queue, state)
        assert queue.cancel("a") == state
        assert state_of(queue, "a") == state

    def test_a_job_that_is_not_there(self, queue: Queue[Any, Any]) -> None:
        with pytest.raises(JobNotFound):
            queue.cancel("a")


class TestRedrive:
    def test_a_dead_job_runs_again_with_all_its_attempts(self, queue: Queue[Any, Any]) -> None:
        queue.enqueue(1, id="a", max_attempts=2, priority=7)
        for _ in range(2):
            queue.fail(queue.claim()[0], "no", delay=0)
        assert state_of(queue, "a") is State.FAILED
        queue.redrive("a", by="me")
        [job] = queue.claim()
        assert (job.attempt, job.priority, job.record.options.max_attempts) == (1, 7, 2)
        assert queue.counts()[State.FAILED] == 0

    def test_later(self, queue: Queue[Any, Any], clock: ManualClock) -> None:
        bring_to_state(queue, "failed")
        queue.redrive("a", delay=10)
        assert queue.claim() == []
        clock.advance(10)
        assert len(queue.claim()) == 1

    @pytest.mark.parametrize("state", [state for state in STATES if state != "failed"])
    def test_only_the_dead(self, queue: Queue[Any, Any], state: str) -> None:
        bring_to_state(queue, state)
        with pytest.raises(WrongState) as refused:
            queue.redrive("a")
        assert (refused.value.id, refused.value.state) == ("a", state)

    @pytest.mark.every_store
    def test_all_or_all_of_some_kinds(self, queue: Queue[Any, Any]) -> None:
        queue.enqueue_many(range(600), kind="one")
        queue.enqueue_many(range(5), kind="other")
        bury_all(queue)
        assert queue.redrive_all(kinds=["other"]) == 5
        assert queue.redrive_all() == 600
        assert queue.redrive_all() == 0
        assert queue.counts()[State.QUEUED] == 605

    def test_so_many_a_second(self, queue: Queue[Any, Any], clock: ManualClock) -> None:
        queue.enqueue_many(range(600))
        bury_all(queue)
        assert queue.redrive_all(rate=100) == 600
        clock.advance(1.0)
        assert len(queue.claim(200)) == 101
        clock.advance(5.0)
        assert len(queue.claim(200)) + len(queue.claim(200)) + len(queue.claim(200)) == 499
        with pytest.raises(InvalidOption, match="second"):
            queue.redrive_all(rate=0)


class TestEdit:
    def test_payload_and_priority(self, queue: Queue[Any, Any]) -> None:
        queue.enqueue("old", id="a", priority=1)
        queue.enqueue("other", id="b", priority=5)
        queue.edit("a", payload="new", priority=9)
        assert [job.payload for job in queue.claim(2)] == ["new", "other"]

    def test_a_payload_can_become_none(self, queue: Queue[Any, Any]) -> None:
        queue.enqueue("old", id="a")
        queue.edit("a", payload=None)
        assert queue.claim()[0].payload is None

    def test_delay(self, queue: Queue[Any, Any], clock: ManualClock) -> None:
        queue.enqueue(1, id="a")
        queue.edit("a", delay=10)
        assert state_of(queue, "a") is State.SCHEDULED
        queue.edit("a", delay=5)
        clock.advance(5)
        assert len(queue.claim()) == 1

    def test_not_while_it_runs(self, queue: Queue[Any, Any]) -> None:
        bring_to_state(queue, "processing")
        with pytest.raises(WrongState):
            queue.edit("a", payload=2)

    def test_only_what_was_seen(self, queue: Queue[Any, Any]) -> None:
        queue.enqueue(1, id="a")
        known = queue.status("a")
        queue.edit("a", payload=2, expected=known)

        with pytest.raises(JobChanged):
            queue.edit("a", payload=3, expected=known)

        assert queue.claim()[0].payload == 2

    def test_one_that_was_seen_running_is_in_the_wrong_state(self, queue: Queue[Any, Any]) -> None:
        bring_to_state(queue, "processing")
        with pytest.raises(WrongState):
            queue.edit("a", payload=2, expected=queue.status("a"))

    def test_one_that_was_seen_running_and_waits_by_now_has_changed(
        self, queue: Queue[Any, Any]
    ) -> None:
        queue.enqueue(1, id="a")
        [job] = queue.claim()
        known = queue.status("a")
        queue.release(job)

        with pytest.raises(JobChanged):
            queue.edit("a", payload=2, expected=known)

    def test_bad_values_change_nothing(self, queue: Queue[Any, Any]) -> None:
        queue.enqueue(1, id="a")
        for change in ({"priority": 10}, {"delay": -1}):
            with pytest.raises(InvalidOption):
                queue.edit("a", **change)  # type: ignore[arg-type]
        assert queue.claim()[0].priority == 5


@pytest.mark.every_store
class TestMove:
    @pytest.mark.parametrize("state", [state for state in STATES if state != "processing"])
    def test_to_another_queue(self, queues: Queues, state: str) -> None:
        here, there = queues["email"], queues["other"]
        bring_to_state(here, state)
        here.move("a", "other")
        assert here.status("a") is None
        assert state_of(there, "a") == state

    def test_not_while_it_runs(self, queue: Queue[Any, Any]) -> None:
        bring_to_state(queue, "processing")
        with pytest.raises(WrongState):
            queue.move("a", "other")

    def test_not_onto_a_job_of_the_same_id(self, queues: Queues) -> None:
        queues["email"].enqueue(1, id="a")
        queues["other"].enqueue(2, id="a")
        with pytest.raises(WrongState):
            queues["email"].move("a", "other")
        assert queues["email"].claim()[0].payload == 1


@pytest.mark.every_store
class TestQueue:
    def test_pause_and_resume(self, queue: Queue[Any, Any]) -> None:
        queue.enqueue_many([1, 2])
        [running] = queue.claim()
        queue.pause(by="me")
        assert queue.claim() == []
        queue.enqueue(3)
        queue.complete(running)
        queue.resume()
        assert len(queue.claim(5)) == 2

    def test_purge_only_this_queue(self, queues: Queues) -> None:
        for name in ("email", "email2", "sms"):
            queues[name].enqueue_many(range(600))
        assert queues["email"].purge() == 600
        assert queues["email2"].counts()[State.QUEUED] == 600
        assert queues["sms"].counts()[State.QUEUED] == 600

    def test_purge_some(self, queue: Queue[Any, Any]) -> None:
        queue.enqueue_many(
            [NewJob(n, id=str(n), kind="odd" if n % 2 else "even") for n in range(9)]
        )
        queue.cancel("8")
        assert queue.purge(ids=["0", "nobody"]) == 1
        assert queue.purge(kinds=["odd"]) == 4
        assert queue.purge(states=["cancelled"]) == 1
        assert sorted(job.id for job in queue.jobs().jobs) == ["2", "4", "6"]

    def test_purge_takes_what_was_enqueued_before_the_clock_was_set_back(
        self, queue: Queue[Any, Any], clock: ManualClock
    ) -> None:
        queue.enqueue(1, id="a")
        clock.advance(3600)
        queue.enqueue_many([NewJob(n, kind="late", id=f"b{n}") for n in range(600)])
        clock.advance(-3600)

        assert queue.purge(kinds=["late"]) == 600
        assert queue.purge() == 1

    def test_purge_leaves_what_is_enqueued_meanwhile(
        self, queue: Queue[Any, Any], clock: ManualClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        queue.enqueue(1, id="a")
        purge = queue.store.purge

        def purge_while_enqueueing(*arguments: Any) -> int:
            clock.advance(1)
            queue.enqueue(2, id="b")
            return purge(*arguments)

        monkeypatch.setattr(queue.store, "purge", purge_while_enqueueing)

        assert queue.purge() == 1
        assert [job.id for job in queue.jobs().jobs] == ["b"]

    def test_drop_takes_what_was_enqueued_before_the_clock_was_set_back(
        self, queue: Queue[Any, Any], clock: ManualClock
    ) -> None:
        clock.advance(3600)
        queue.enqueue(1, id="a")
        clock.advance(-3600)

        assert queue.drop(force=True) == 1

    def test_redrive_all_takes_what_failed_before_the_clock_was_set_back(
        self, queue: Queue[Any, Any], clock: ManualClock
    ) -> None:
        clock.advance(3600)
        queue.enqueue(1, id="a", max_attempts=1)
        queue.fail(queue.claim()[0], "broken")
        clock.advance(-3600)

        assert queue.redrive_all() == 1

    def test_a_purged_job_that_runs_is_lost_to_its_worker(self, queue: Queue[Any, Any]) -> None:
        queue.enqueue(1)
        [job] = queue.claim()
        queue.purge()
        with pytest.raises(LeaseLost) as lost:
            queue.complete(job)
        assert lost.value.state is None

    def test_counts(self, queue: Queue[Any, Any]) -> None:
        assert set(queue.counts().values()) == {0}
        queue.enqueue_many(range(4))
        queue.enqueue(1, delay=60)
        one, other, _ = queue.claim(3)
        queue.complete(one)
        queue.bury(other, "no")
        assert queue.counts() == {
            State.SCHEDULED: 1,
            State.QUEUED: 1,
            State.PROCESSING: 1,
            State.FAILING: 0,
            State.COMPLETED: 1,
            State.FAILED: 1,
            State.CANCELLED: 0,
        }

    def test_settings_are_shared(self, queues: Queues) -> None:
        changed = queues["email"].configure(group_limit=3, by="me")
        assert changed == queues["email"].settings()
        again = Queues(queues.store)["email"]
        assert again.settings().group_limit == 3

    def test_queues_are_listed_by_name(self, queues: Queues) -> None:
        for name in ("b", "a"):
            queues[name].enqueue(1)
        assert list(queues) == ["a", "b"]


class TestJobs:
    def test_pages_list_each_job_once(self, queue: Queue[Any, Any]) -> None:
        queue.enqueue_many([NewJob(n, id=f"{n:03}") for n in range(250)])
        job_ids, cursor = [], None
        while True:
            page = queue.jobs(limit=100, cursor=cursor)
            assert len(page.jobs) <= 100
            job_ids += [job.id for job in page.jobs]
            cursor = page.cursor
            if cursor is None:
                break
        assert job_ids == [f"{n:03}" for n in range(250)]

    @pytest.mark.every_store
    def test_by_state_kind_time_and_text(self, queue: Queue[Any, Any], clock: ManualClock) -> None:
        queue.enqueue({"to": "ann"}, id="1", kind="welcome")
        clock.advance(10)
        queue.enqueue({"to": "bob"}, id="2", kind="goodbye", delay=60)

        def found(**which: Any) -> list[str]:
            return [job.id for job in queue.jobs(**which).jobs]

        assert found(states=["scheduled"]) == ["2"]
        assert found(states=[State.QUEUED, State.SCHEDULED], kinds=["welcome"]) == ["1"]
        assert found(created_after=clock.now()) == ["2"]
        assert found(created_before=clock.now()) == ["1"]
        assert found(text='"bob"') == ["2"]
        assert found(text="carol") == []

    def test_a_page_is_its_jobs(self, queue: Queue[Any, Any]) -> None:
        assert len(queue.jobs()) == 0
        queue.enqueue_many([1, 2, 3])
        page = queue.jobs(limit=2)
        assert len(page) == 2
        assert [job.payload for job in page] == [1, 2]

    def test_a_state_that_nobody_knows(self, queue: Queue[Any, Any]) -> None:
        with pytest.raises(ValueError, match="sleeping"):
            queue.jobs(states=["sleeping"])

    def test_status_tells_the_whole_story(self, queue: Queue[Any, Any], clock: ManualClock) -> None:
        queue.enqueue(1, id="a", headers={"from": "test"})
        queue.fail(queue.claim(worker="w1")[0], KeyError("k"), delay=1)
        clock.advance(1)
        [job] = queue.claim(worker="w2")
        queue.report(job, {"done": 0.5})
        status = queue.status("a")
        assert status is not None
        assert (status.state, status.attempt, status.headers) == (
            "processing",
            2,
            {"from": "test"},
        )
        assert status.progress == {"done": 0.5}
        [ended] = status.record.history
        assert (ended.type, ended.worker, ended.attempt) == ("KeyError", "w1", 1)
        assert queue.status("nobody") is None


def watching(queue: Queue[Any, Any]) -> list[str]:
    """The threads that call back for events of a queue."""
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if name == f"watch {queue.key}"]


class TestEvents:
    def test_by_cursor(self, queue: Queue[Any, Any]) -> None:
        queue.enqueue(1, id="a")
        queue.complete(queue.claim()[0])
        events = list(queue.events())
        assert [(event.act, event.source, event.to) for event in events] == [
            (Act.ENQUEUE, None, State.QUEUED),
            (Act.CLAIM, State.QUEUED, State.PROCESSING),
            (Act.COMPLETE, State.PROCESSING, State.COMPLETED),
        ]
        for index, event in enumerate(events):
            assert list(queue.events(event.cursor)) == events[index + 1 :]

    def test_many_in_order_and_once(self, queue: Queue[Any, Any]) -> None:
        queue.enqueue_many([NewJob(n, id=str(n)) for n in range(1700)])
        assert [event.id for event in queue.events()] == [str(n) for n in range(1700)]

    def test_of_this_queue_only(self, queues: Queues) -> None:
        queues["other"].enqueue(1)
        assert list(queues["email"].events()) == []

    @pytest.mark.every_store
    @pytest.mark.parametrize("what", ["completed", State.COMPLETED, Act.COMPLETE])
    def test_by_callback(self, queue: Queue[Any, Any], what: Any) -> None:
        queue.enqueue(1, id="before")
        queue.complete(queue.claim()[0])
        got: _queue.SimpleQueue[Event] = _queue.SimpleQueue()
        with contextlib.closing(queue.on(what, got.put)):
            queue.enqueue(1, id="after")
            queue.complete(queue.claim()[0])
            event = got.get(timeout=5)
            assert (event.id, event.to) == ("after", State.COMPLETED)
        assert got.empty()

    def test_ends_with_the_queues(
        self, queues: Queues, queue: Queue[Any, Any], caplog: pytest.LogCaptureFixture
    ) -> None:
        queue.on("completed", print)
        queues.close()
        assert watching(queue) == []
        assert caplog.text == ""

    @pytest.mark.every_store
    def test_ends_when_its_store_is_closed(
        self, queue: Queue[Any, Any], caplog: pytest.LogCaptureFixture
    ) -> None:
        queue.on("completed", print)
        queue.store.close()
        until(lambda: watching(queue) == [])
        assert caplog.text.count("callbacks for completed events end: the store is closed") == 1

    @pytest.mark.every_store
    def test_on_failed_dead_letter_enqueue_happens_once(
        self, queues: Queues, queue: Queue[Any, Any]
    ) -> None:
        """An edit of a job in the DLQ does not make it fail again."""
        dead_letters, got = queues["dead-letters"], _queue.SimpleQueue[str]()

        def move_to_dead_letters(event: Event) -> None:
            job = queue.status(event.id)
            assert job is not None
            assert job.error is not None
            if job.error.dlq_reason is DlqReason.MAX_ATTEMPTS:
                receipt = dead_letters.enqueue(job.payload, id=event.cursor)
                got.put(f"{job.error.type}: {job.error.message} {type(receipt).__name__}")

        with contextlib.closing(queue.on("failed", move_to_dead_letters)):
            queue.enqueue({"to": "ann"}, id="job-1", max_attempts=1)
            queue.fail(queue.claim()[0], ValueError("mailbox full"))
            assert got.get(timeout=5) == "ValueError: mailbox full Queued"
            queue.edit("job-1", payload={"to": "bob"})
            queue.enqueue(2, id="job-2", max_attempts=1)
            queue.fail(queue.claim()[0], KeyError("to"))
            assert got.get(timeout=5) == "KeyError: 'to' Queued"

        assert sorted(str(job.payload) for job in dead_letters.jobs()) == ["2", "{'to': 'ann'}"]

    @pytest.mark.every_store
    def test_on_stalled_reports_the_jobs_of_a_dead_worker(
        self, queue: Queue[Any, Any], clock: ManualClock
    ) -> None:
        got: _queue.SimpleQueue[Event] = _queue.SimpleQueue()
        with contextlib.closing(queue.on("stalled", got.put)):
            queue.enqueue(1, id="a")
            queue.claim(lease=5)
            clock.advance(5)
            queue.expire(queue.store.leases(queue.key), "lease expired")
            assert got.get(timeout=5).act is Act.EXPIRE

    def test_on_error_gets_the_errors_of_other_callbacks(self, queue: Queue[Any, Any]) -> None:
        errors: _queue.SimpleQueue[Exception] = _queue.SimpleQueue()

        def fail(event: Event) -> None:
            raise ZeroDivisionError(event.id)

        with queue.on("error", errors.put) as subscription, queue.on("enqueue", fail):
            queue.enqueue(1, id="a")
            assert repr(errors.get(timeout=5)) == "ZeroDivisionError('a')"
            subscription.close()
            queue.enqueue(1, id="b")
        assert errors.empty()

    def test_an_error_callback_that_fails_is_logged(
        self, queue: Queue[Any, Any], caplog: pytest.LogCaptureFixture
    ) -> None:
        def fail(error: Exception) -> None:
            raise KeyError from error

        with queue.on("error", fail):
            queue.error_callbacks.report(ValueError("lost"))
        assert "a callback for errors failed" in caplog.text

    def test_a_word_that_is_neither_state_nor_act(self, queue: Queue[Any, Any]) -> None:
        with pytest.raises(ValueError, match="exploded"):
            queue.on("exploded", print)


@pytest.mark.every_store
class TestSettling:
    def test_a_stale_lease_changes_nothing(
        self, queue: Queue[Any, Any], clock: ManualClock
    ) -> None:
        queue.enqueue(1, id="a")
        [stale] = queue.claim(lease=5)
        clock.advance(5)
        [fresh] = queue.claim(wait=0) or queue.claim()
        acts: list[Any] = [
            lambda: queue.complete(stale, "stale"),
            lambda: queue.fail(stale, "stale"),
            lambda: queue.bury(stale, "stale"),
            lambda: queue.snooze(stale, 1),
            lambda: queue.release(stale),
            lambda: queue.extend(stale, 10),
            lambda: queue.report(stale, 1),
        ]
        for act in acts:
            with pytest.raises(LeaseLost):
                act()
        queue.complete(fresh, "fresh")
        assert queue.result("a") == "fresh"

    def test_settling_again_answers_the_same(self, queue: Queue[Any, Any]) -> None:
        queue.enqueue(1, id="a")
        [job] = queue.claim()
        queue.complete(job, "done")
        queue.complete(job, "done")
        with pytest.raises(LeaseLost):
            queue.complete(job, "something else")
        with pytest.raises(LeaseLost):
            queue.fail(job, "no")

    def test_snooze_and_release_cost_no_attempt(
        self, queue: Queue[Any, Any], clock: ManualClock
    ) -> None:
        queue.enqueue(1, max_attempts=1)
        queue.snooze(queue.claim()[0], 10)
        clock.advance(10)
        queue.release(queue.claim()[0])
        assert queue.claim()[0].attempt == 1

    def test_extend_holds_the_lease(self, queue: Queue[Any, Any], clock: ManualClock) -> None:
        queue.enqueue(1)
        [job] = queue.claim(lease=5)
        clock.advance(4)
        job.extend(10)
        clock.advance(9)
        assert queue.claim() == []
        queue.complete(job)

    @pytest.mark.parametrize("seconds", [0, -1, float("nan"), True])
    def test_extend_by_nothing_is_refused(self, queue: Queue[Any, Any], seconds: Any) -> None:
        queue.enqueue(1)
        [job] = queue.claim()
        with pytest.raises(InvalidOption):
            queue.extend(job, seconds)


class TestOneNameAlone:
    """A text where names are expected is one name, not its letters."""

    def test_of_jobs_to_be_purged(self, queues: Queues) -> None:
        queue = queues["email"]
        for id in ("a", "b", "c", "abc"):
            queue.enqueue(1, id=id)

        assert queue.purge(ids="abc") == 1

        assert sorted(job.id for job in queue.jobs().jobs) == ["a", "b", "c"]

    def test_of_a_kind(self, queues: Queues) -> None:
        queue = queues["email"]
        for id in ("listed", "claimed", "buried"):
            queue.enqueue(1, id=id, kind="welcome")
        queue.enqueue(1, id="other", kind="w", priority=9)

        assert len(queue.jobs(kinds="welcome").jobs) == 3
        assert [job.id for job in queue.claim(1, kinds="welcome")] == ["listed"]
        [job] = queue.claim(1, kinds="welcome")
        queue.bury(job, "no")
        assert queue.redrive_all(kinds="welcome") == 1
        assert queue.purge(kinds="welcome") == 3
        assert [job.id for job in queue.jobs().jobs] == ["other"]


def test_what_an_edit_could_not_change_is_refused(queues: Queues) -> None:
    queue = queues["email"]
    queue.enqueue(1, id="waiting")
    queue.enqueue(1, id="done", priority=9)
    queue.complete(queue.claim()[0])
    reported = len(list(queue.events()))

    with pytest.raises(WrongState) as waits:
        queue.keep_result("waiting", 5.0)
    with pytest.raises(WrongState) as is_done:
        queue.edit("done", delay=5.0)
    assert [waits.value.state, is_done.value.state] == [State.QUEUED, State.COMPLETED]
    with pytest.raises(InvalidOption, match="edit"):
        queue.edit("waiting")

    assert len(list(queue.events())) == reported
    queue.edit("waiting", delay=5.0)
    queue.keep_result("done", 5.0)


def test_a_job_that_was_asked_to_stop_is_kept_as_a_cancelled_one(queues: Queues) -> None:
    queue = queues["email"]
    queue.configure(policy=Policy(keep_failed=1000.0, keep_cancelled=10.0))
    queue.enqueue(1, id="a", max_attempts=1)
    [job] = queue.claim()
    queue.cancel("a")

    queue.fail(job, "its last attempt")

    status = queue.status("a")
    assert status is not None
    assert status.state is State.CANCELLED
    record = status.record
    assert (record.expires_at or 0) - (record.finished_at or 0) == pytest.approx(10.0)


def test_a_queue_that_another_of_its_name_has_replaced_is_closed_too(tmp_path: Path) -> None:
    queues = ackline.open(f"sqlite:///{tmp_path}/jobs.db")
    first = queues["email"]
    first.on("enqueue", print)
    waiter = first.waiter
    queues.queue("email", payload=int)

    queues.close()

    assert not waiter.alive
    assert watching(first) == []
