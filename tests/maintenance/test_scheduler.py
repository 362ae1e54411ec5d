from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest

from ackline import (
    ConfigError,
    InvalidOption,
    InvalidPayload,
    Queue,
    Queues,
    State,
    StoreUnavailable,
)
from ackline.core.cron import Schedule
from ackline.maintenance import Maintenance, Pruner, Scheduler
from ackline.maintenance.scheduler import ENQUEUE_TIMEOUT, ScheduleInfo, list_schedules
from ackline.testing import ManualClock

MINUTELY = Schedule("tick", "* * * * *", kind="tick", payload={"n": 1})


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_767_225_630.0)  # 2026-01-01T00:00:30Z


@pytest.fixture
def queue(queues: Queues) -> Queue[Any, Any]:
    return queues["reports"]


def ids(queue: Queue[Any, Any]) -> list[str]:
    return sorted(job.id for job in queue.jobs().jobs)


def run_all(queue: Queue[Any, Any]) -> int:
    jobs = queue.claim(100)
    for job in jobs:
        queue.complete(job)
    return len(jobs)


def test_each_tick_makes_one_job(queue: Queue[Any, Any], clock: ManualClock) -> None:
    scheduler = Scheduler(queue, [MINUTELY])
    assert scheduler.step() == 1.0
    assert ids(queue) == []
    clock.advance(30)
    scheduler.step()
    scheduler.step()
    clock.advance(60)
    scheduler.step()
    assert ids(queue) == ["tick@2026-01-01T00:01:00Z", "tick@2026-01-01T00:02:00Z"]
    job = queue.claim()[0]
    assert (job.kind, job.payload) == ("tick", {"n": 1})
    assert scheduler.stats().done == {"fired": 2}


def test_it_sleeps_until_the_next_tick(queue: Queue[Any, Any], clock: ManualClock) -> None:
    scheduler = Scheduler(queue, [MINUTELY], interval=3600.0)
    assert scheduler.step() == pytest.approx(30.0)
    clock.advance(29.5)
    assert scheduler.step() == pytest.approx(0.5)


def test_options_reach_the_job(queue: Queue[Any, Any], clock: ManualClock) -> None:
    schedule = Schedule("s", "* * * * *", options={"priority": 9, "max_attempts": 1})
    scheduler = Scheduler(queue, [schedule])
    scheduler.step()
    clock.advance(30)
    scheduler.step()
    job = queue.claim()[0]
    assert (job.priority, job.record.options.max_attempts) == (9, 1)


def listed(queue: Queue[Any, Any]) -> list[ScheduleInfo]:
    return list_schedules(queue.store, "default")


@pytest.mark.every_store
def test_other_processes_see_the_schedules_of_a_worker(
    queue: Queue[Any, Any], clock: ManualClock
) -> None:
    nightly = Schedule("nightly", "0 3 * * *", kind="report", tz="Europe/Berlin")
    scheduler = Scheduler(queue, [MINUTELY, nightly])
    scheduler.step()
    clock.advance(35)
    scheduler.step()

    tick, other = listed(queue)

    assert tick == ScheduleInfo(
        queue="reports", name="tick", cron="* * * * *", tz="UTC", kind="tick",
        next_at=clock.now() + 55, last_at=clock.now() - 5, last_job="tick@2026-01-01T00:01:00Z",
    )  # fmt: skip
    assert (other.name, other.tz, other.kind) == ("nightly", "Europe/Berlin", "report")
    assert (other.next_at, other.last_at, other.last_job) == (1_767_232_800.0, None, None)
    assert list_schedules(queue.store, "default", "reports") == [tick, other]
    assert list_schedules(queue.store, "default", "other") == []


def test_a_changed_schedule_is_listed_as_it_is_now(
    queue: Queue[Any, Any], clock: ManualClock
) -> None:
    Scheduler(queue, [MINUTELY]).step()
    Scheduler(queue, [Schedule("tick", "@hourly")]).step()

    [tick] = listed(queue)

    assert (tick.cron, tick.kind, tick.next_at) == ("@hourly", "default", clock.now() + 3570)


@pytest.mark.every_store
def test_many_instances_make_one_job_a_tick(queue: Queue[Any, Any], clock: ManualClock) -> None:
    schedulers = [Scheduler(queue, [MINUTELY]) for _ in range(4)]
    for scheduler in schedulers:
        scheduler.step()
    for _ in range(5):
        clock.advance(60)
        threads = [threading.Thread(target=scheduler.step) for scheduler in schedulers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for scheduler in schedulers:  # those that found the tick taken check again
            scheduler.step()
    assert len(ids(queue)) == 5
    assert sum(scheduler.stats().done.get("fired", 0) for scheduler in schedulers) == 5


@pytest.mark.every_store
def test_an_interval_makes_one_job_a_tick_for_the_fleet(
    queue: Queue[Any, Any], clock: ManualClock
) -> None:
    often = Schedule("often", timedelta(seconds=20))
    schedulers = [Scheduler(queue, [often]) for _ in range(3)]
    for _ in range(5):
        for scheduler in schedulers:
            scheduler.step()
        clock.advance(10)
    assert ids(queue) == ["often@2026-01-01T00:00:40Z", "often@2026-01-01T00:01:00Z"]


class TestAfterADowntime:
    @pytest.mark.parametrize(
        ("catch_up", "minutes"), [("one", [5]), ("all", [1, 2, 3, 4, 5]), ("none", [])]
    )
    def test_missed_ticks(
        self, queue: Queue[Any, Any], clock: ManualClock, catch_up: Any, minutes: list[int]
    ) -> None:
        schedule = Schedule("tick", "0-5 * * * *", catch_up=catch_up)
        Scheduler(queue, [schedule]).step()
        clock.advance(30 * 60)
        restarted = Scheduler(queue, [schedule])
        for _ in range(3):
            restarted.step()
        assert ids(queue) == [f"tick@2026-01-01T00:{minute:02}:00Z" for minute in minutes]

    def test_a_restart_fires_nothing_twice(
        self, queue: Queue[Any, Any], clock: ManualClock
    ) -> None:
        Scheduler(queue, [MINUTELY]).step()
        clock.advance(30)
        for _ in range(3):
            Scheduler(queue, [MINUTELY]).step()
        assert len(ids(queue)) == 1

    def test_a_new_schedule_has_missed_nothing(self, queue: Queue[Any, Any]) -> None:
        Scheduler(queue, [Schedule("yearly", "0 0 1 1 *")]).step()
        assert ids(queue) == []


@pytest.mark.every_store
class TestRaces:
    def test_a_slow_instance_finds_the_tick_taken_though_its_job_is_pruned(
        self, queue: Queue[Any, Any], clock: ManualClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        schedule = Schedule("tick", "* * * * *", options={"result_ttl": 0})
        quick, slow = Scheduler(queue, [schedule]), Scheduler(queue, [schedule])
        quick.step()
        slow.step()
        clock.advance(30)
        # The slow one has read what was fired last, and is delayed before it continues.
        read, held_up = queue.store.read_keys, threading.Event()

        def read_slowly(*args: Any) -> Any:
            receipt = read(*args)
            if not held_up.is_set():
                held_up.set()
                quick.step()
                assert run_all(queue) == 1
                clock.advance(1)
                Pruner([queue], 1.0).step()
                assert ids(queue) == []
            return receipt

        monkeypatch.setattr(queue.store, "read_keys", read_slowly)
        for _ in range(3):
            slow.step()
        assert ids(queue) == []
        assert slow.stats().done.get("fired", 0) == 0

    def test_ticks_of_one_that_died_in_between_are_fired_by_another(
        self, queue: Queue[Any, Any], clock: ManualClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        dying, other = Scheduler(queue, [MINUTELY]), Scheduler(queue, [MINUTELY])
        dying.step()
        clock.advance(30)
        with monkeypatch.context() as patched:
            patched.setattr(queue, "enqueue_many", self.die)
            with pytest.raises(ExceptionGroup):
                dying.step()
        other.step()
        assert ids(queue) == []
        clock.advance(ENQUEUE_TIMEOUT)
        other.step()
        assert ids(queue) == ["tick@2026-01-01T00:01:00Z"]

    def die(self, *args: Any) -> None:
        raise KeyError("killed")

    def test_a_scheduler_that_could_not_enqueue_retries_at_once(
        self, queue: Queue[Any, Any], clock: ManualClock
    ) -> None:
        scheduler = Scheduler(queue, [MINUTELY])
        scheduler.step()
        queue.configure(max_jobs=0)
        clock.advance(30)
        with pytest.raises(ExceptionGroup):
            scheduler.step()
        queue.configure(max_jobs=None)
        scheduler.step()
        assert ids(queue) == ["tick@2026-01-01T00:01:00Z"]

    def test_a_tick_whose_job_has_completed_is_not_fired_again(
        self, queue: Queue[Any, Any], clock: ManualClock
    ) -> None:
        scheduler = Scheduler(queue, [MINUTELY])
        scheduler.step()
        clock.advance(30)
        scheduler.step()
        run_all(queue)
        for key in queue.store.read_keys("default", ("ackline", "cron"), 10):
            assert key.key == ("ackline", "cron", "reports", "tick")
        clock.advance(1)
        Scheduler(queue, [MINUTELY]).step()
        assert queue.counts()[State.QUEUED] == 0


class TestRefused:
    def test_a_job_that_the_queue_would_refuse_is_refused_at_once(
        self, queue: Queue[Any, Any]
    ) -> None:
        with pytest.raises(InvalidOption):
            Scheduler(queue, [Schedule("s", "* * * * *", options={"priority": 10})])
        with pytest.raises(InvalidPayload):
            Scheduler(queue, [Schedule("s", "* * * * *", payload=object())])

    def test_two_schedules_of_one_name_are_refused(self, queue: Queue[Any, Any]) -> None:
        with pytest.raises(ConfigError, match="tick"):
            Scheduler(queue, [MINUTELY, MINUTELY])


def test_maintenance_fires_the_schedules_of_its_queues(
    queue: Queue[Any, Any], clock: ManualClock
) -> None:
    maintenance = Maintenance([queue], schedules={queue: [MINUTELY]})
    maintenance.step()
    clock.advance(30)
    maintenance.step()
    assert maintenance.stats().fired == 1


def test_what_a_queue_declares_is_fired_by_its_maintenance(
    queue: Queue[Any, Any], clock: ManualClock
) -> None:
    queue.every("* * * * *", {"of": "today"}, kind="report", priority=7)
    maintenance = Maintenance([queue])
    maintenance.step()
    clock.advance(60)
    maintenance.step()
    (job,) = queue.claim(10)
    assert (job.id, job.kind, job.payload) == (
        "report@2026-01-01T00:01:00Z",
        "report",
        {"of": "today"},
    )
    assert job.priority == 7


def test_two_declared_schedules_of_one_name_are_refused(queue: Queue[Any, Any]) -> None:
    queue.every("0 3 * * *", kind="report")
    with pytest.raises(ConfigError, match="report"):
        queue.every("0 4 * * *", kind="report")
    queue.every("0 4 * * *", kind="report", name="later report")


def test_a_declared_schedule_that_could_not_be_enqueued_is_refused_at_once(
    queue: Queue[Any, Any],
) -> None:
    with pytest.raises(InvalidOption):
        queue.every("0 3 * * *", priority=11)
    assert queue.schedules == []


def test_a_tick_whose_job_failed_is_not_enqueued_again_after_an_error(
    queue: Queue[Any, Any], clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job was enqueued, the note of it was not written; meanwhile the job ran."""
    scheduler = Scheduler(queue, [MINUTELY])
    scheduler.step()
    clock.advance(60)
    write = queue.store.write_keys
    entries = []

    def write_once(*args: Any) -> bool:
        entries.append(args)
        if len(entries) == 2:
            raise StoreUnavailable("cut")
        return write(*args)

    monkeypatch.setattr(queue.store, "write_keys", write_once)
    with pytest.raises(ExceptionGroup, match="scheduler failed"):
        scheduler.step()
    [job] = queue.claim()
    queue.bury(job, "boom")
    scheduler.step()
    assert len(entries) > 2
    assert queue.claim() == []
    assert queue.counts()[State.FAILED] == 1


class TestClockSetBack:
    YEAR = 365 * 86400.0

    def fire_ahead(self, queue: Queue[Any, Any], clock: ManualClock, seconds: float) -> Scheduler:
        """A scheduler that saw the clock ahead by so much, for a moment."""
        scheduler = Scheduler(queue, [MINUTELY])
        scheduler.step()
        clock.advance(seconds)
        scheduler.step()
        assert queue.purge() == 1
        clock.advance(-seconds)
        return scheduler

    @pytest.mark.parametrize("restarted", [False, True])
    def test_after_a_clock_a_year_ahead_each_tick_enqueues_one_job(
        self,
        queue: Queue[Any, Any],
        clock: ManualClock,
        caplog: pytest.LogCaptureFixture,
        restarted: bool,
    ) -> None:
        schedulers = [self.fire_ahead(queue, clock, self.YEAR)]
        if restarted:
            schedulers = [Scheduler(queue, [MINUTELY]) for _ in range(3)]
        for scheduler in schedulers:
            scheduler.step()
        clock.advance(30)
        for scheduler in schedulers * 2:
            scheduler.step()
        assert ids(queue) == ["tick@2026-01-01T00:01:00Z"]
        assert caplog.text.count("schedule 'tick' of reports was reset") == 1

    def test_ticks_taken_while_the_clock_was_ahead_are_not_waited_for(
        self, queue: Queue[Any, Any], clock: ManualClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        dying, other = Scheduler(queue, [MINUTELY]), Scheduler(queue, [MINUTELY])
        dying.step()
        clock.advance(self.YEAR)
        with monkeypatch.context() as patched:
            patched.setattr(queue, "enqueue_many", TestRaces().die)
            with pytest.raises(ExceptionGroup):
                dying.step()
        clock.advance(-self.YEAR)
        other.step()
        clock.advance(30)
        other.step()
        assert ids(queue) == ["tick@2026-01-01T00:01:00Z"]

    def test_control_after_a_clock_minutes_ahead_no_tick_repeats(
        self, queue: Queue[Any, Any], clock: ManualClock, caplog: pytest.LogCaptureFixture
    ) -> None:
        scheduler = self.fire_ahead(queue, clock, 90.0)  # up to the tick at 00:02
        for _ in range(3):
            clock.advance(30)
            scheduler.step()
        assert ids(queue) == []
        clock.advance(60)
        scheduler.step()
        assert ids(queue) == ["tick@2026-01-01T00:03:00Z"]
        assert "was reset" not in caplog.text
