from __future__ import annotations

import contextlib
import logging
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from ackline import ConfigError, Queue, Queues, State, StoreUnavailable
from ackline.core.lifecycle import complete
from ackline.maintenance import Maintenance, MaintenanceLoop, Promoter, Pruner
from ackline.maintenance.queue_backoff import LOG_INTERVAL, RETRY_DELAYS, QueueBackoff
from ackline.testing import ManualClock, memory_queues


class Counting(MaintenanceLoop):
    """Fails a given number of times, then records that it ran."""

    name = "counting loop"

    def __init__(
        self,
        queue: Queue[Any, Any],
        failures: int = 0,
        interval: float = 0.001,
        error: Exception | None = None,
    ) -> None:
        super().__init__([queue], interval)
        self.failing = failures
        self.error = error or ConnectionError("the store is away")
        self.ran = threading.Event()

    def maintain(self, queue: Queue[Any, Any]) -> float:
        if self.failing:
            self.failing -= 1
            raise self.error
        self.count("maintained", 1)
        self.ran.set()
        return 0.001


@pytest.fixture
def queue() -> Queue[Any, Any]:
    return memory_queues()["email"]


def test_a_loop_runs_until_it_is_stopped(queue: Queue[Any, Any]) -> None:
    loop = Counting(queue)
    loop.start()
    assert loop.ran.wait(5)
    loop.stop()
    assert not [thread for thread in threading.enumerate() if "counting" in thread.name]
    assert loop.stats().runs == loop.stats().done["maintained"] >= 1


def test_a_stopped_loop_can_be_started_again(queue: Queue[Any, Any]) -> None:
    loop = Counting(queue)
    for _ in range(2):
        loop.ran.clear()
        loop.start()
        assert loop.ran.wait(5)
        loop.stop()


def test_a_loop_that_fails_says_so_and_goes_on(
    queue: Queue[Any, Any], caplog: pytest.LogCaptureFixture
) -> None:
    loop = Counting(queue, failures=2)
    loop.start()
    assert loop.ran.wait(5)
    loop.stop()
    [error] = [entry for entry in caplog.records if entry.levelno == logging.ERROR]
    assert "email: the store is away" in error.message
    assert "counting loop of queue email" in caplog.text
    assert loop.stats().failures == 2
    assert "the store is away" in loop.stats().last_error


def test_a_loop_that_cannot_learn_what_is_due_has_failed(queue: Queue[Any, Any]) -> None:
    class Blind(Counting):
        def due(self) -> Mapping[Queue[Any, Any], float]:
            raise StoreUnavailable("nobody answers")

    loop = Blind(queue)
    with pytest.raises(ExceptionGroup):
        loop.step()

    assert (loop.stats().runs, loop.stats().failures) == (1, 1)
    assert "nobody answers" in loop.stats().last_error


def test_a_store_that_is_away_is_told_of_in_a_line(
    queue: Queue[Any, Any], caplog: pytest.LogCaptureFixture
) -> None:
    loop = Counting(queue, failures=1, error=StoreUnavailable("nobody answers"))
    loop.start()
    assert loop.ran.wait(5)
    loop.stop()
    [error] = [entry for entry in caplog.records if entry.levelno == logging.ERROR]
    assert "email: nobody answers" in error.message
    assert error.exc_info is None


def test_one_queue_in_trouble_holds_up_no_other() -> None:
    queues = memory_queues()
    maintained = []

    class Picky(MaintenanceLoop):
        name = "picky loop"

        def maintain(self, queue: Queue[Any, Any]) -> float:
            if queue.name == "bad":
                raise ConnectionError("away")
            maintained.append(queue.name)
            return 0.5

    loop = Picky([queues["bad"], queues["good"]], 1.0)
    with pytest.raises(ExceptionGroup) as caught:
        loop.step()
    assert maintained == ["good"]
    assert caught.value.exceptions[0].__notes__ == ["picky loop of queue bad"]


class LoopWithFailingQueue(MaintenanceLoop):
    """Fails for queues called `bad…`; says when it has gone round often."""

    name = "partly failing loop"
    OFTEN = 20

    def __init__(self, queues: Sequence[Queue[Any, Any]]) -> None:
        super().__init__(queues, 0.001)
        self.maintained: Counter[str] = Counter()
        self.often = threading.Event()

    def maintain(self, queue: Queue[Any, Any]) -> float:
        self.maintained[queue.name] += 1
        if queue.name.startswith("bad"):
            raise RuntimeError(f"{queue.name} cannot be read")
        if self.maintained[queue.name] == self.OFTEN:
            self.often.set()
        return 0.001


def test_a_queue_that_fails_for_long_does_not_slow_the_loop_for_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ackline.maintenance.queue_backoff.RETRY_DELAYS", (3600.0, 3600.0))
    queues = memory_queues()
    loop = LoopWithFailingQueue([queues["bad"], queues["good"]])
    loop.start()
    assert loop.often.wait(5)
    loop.stop()
    assert loop.maintained["bad"] == 1
    assert loop.stats().failures == 1


def test_an_error_that_lasts_is_told_of_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("ackline.maintenance.queue_backoff.RETRY_DELAYS", (0.0001, 0.0001))
    queues = memory_queues()
    loop = LoopWithFailingQueue([queues["bad"], queues["bad too"], queues["good"]])
    loop.start()
    assert loop.often.wait(5)
    loop.stop()
    assert loop.maintained["bad"] > 1
    [error] = [entry for entry in caplog.records if entry.levelno == logging.ERROR]
    assert "bad cannot be read; bad too cannot be read" in error.message


class TestQueueBackoff:
    def test_each_queue_rests_for_longer_each_time_until_it_goes_well(self) -> None:
        now = [0.0]
        backoff, queue = QueueBackoff(lambda: now[0]), memory_queues()["email"]
        lengths = []
        for _ in range(10):
            lengths.append(backoff.failed([queue], 1.0)[queue])
            assert backoff.seconds_left(queue) == pytest.approx(lengths[-1])
            now[0] += lengths[-1]
            assert backoff.seconds_left(queue) == 0
        assert lengths[:3] == [0.1, 0.2, 0.4]
        assert lengths[-1] == RETRY_DELAYS[-1]

        backoff.succeeded(queue)

        assert backoff.failed([queue], 0.5) == {queue: 0.05}

    def test_what_lasts_is_told_of_again_after_a_while_and_what_is_new_at_once(self) -> None:
        now = [0.0]
        backoff, queue = QueueBackoff(lambda: now[0]), memory_queues()["email"]

        def is_news(error: Exception) -> bool:
            backoff.failed([queue], 1.0)
            return bool(backoff.to_log({queue: error}))

        assert is_news(KeyError("a"))
        assert not is_news(KeyError("a"))
        assert is_news(KeyError("b"))
        now[0] += 10.0
        assert not is_news(KeyError("b"))
        now[0] += LOG_INTERVAL - 10.0
        assert is_news(KeyError("b"))

    def test_queues_that_are_gone_are_forgotten(self) -> None:
        now = [0.0]
        backoff, queues = QueueBackoff(lambda: now[0]), memory_queues()
        backoff.failed([queues["gone"]], 1.0)
        now[0] += LOG_INTERVAL + 1.0
        backoff.failed([queues["other"]], 1.0)
        assert backoff.failed([queues["gone"]], 1.0) == {queues["gone"]: RETRY_DELAYS[0]}


def test_an_interval_of_nothing_is_refused(queue: Queue[Any, Any]) -> None:
    with pytest.raises(ConfigError, match="interval"):
        Promoter([queue], 0.0)


@pytest.mark.every_store
class TestPromoter:
    def test_promotes_what_is_due_and_nothing_else(
        self, queues: Queues, clock: ManualClock
    ) -> None:
        queue = queues["email"]
        queue.enqueue(1, id="soon", delay=10)
        queue.enqueue(2, id="later", delay=100)
        promoter = Promoter([queue], 1.0)
        clock.advance(9.999)
        promoter.step()
        assert queue.counts()[State.QUEUED] == 0
        clock.advance(0.001)
        promoter.step()
        assert [job.id for job in queue.jobs(states=["queued"]).jobs] == ["soon"]
        assert promoter.stats().done == {"promoted": 1}

    def test_sleeps_until_the_next_job_is_due(self, queues: Queues, clock: ManualClock) -> None:
        queue = queues["email"]
        promoter = Promoter([queue], 60.0)
        assert promoter.step() == 60.0
        queue.enqueue(1, delay=10)
        assert promoter.step() == pytest.approx(10.0)
        clock.advance(7)
        assert promoter.step() == pytest.approx(3.0)

    def test_promotes_also_while_the_queue_is_paused(
        self, queues: Queues, clock: ManualClock
    ) -> None:
        queue = queues["email"]
        queue.enqueue(1, delay=1)
        queue.pause()
        clock.advance(1)
        Promoter([queue], 1.0).step()
        assert queue.counts()[State.QUEUED] == 1

    def test_promotes_more_than_one_batch(self, queues: Queues, clock: ManualClock) -> None:
        queue = queues["email"]
        queue.enqueue_many(range(1201), delay=1)
        clock.advance(1)
        promoter = Promoter([queue], 1.0)
        promoter.step()
        assert promoter.stats().done == {"promoted": 1201}
        assert queue.counts()[State.QUEUED] == 1201

    def test_a_lapsed_lease_does_not_make_it_spin(self, queues: Queues, clock: ManualClock) -> None:
        queue = queues["email"]
        queue.enqueue_many([1])
        queue.claim(lease=1)
        queue.enqueue(2, delay=100)
        clock.advance(5)
        assert Promoter([queue], 1.0).step() >= 0.05


@pytest.mark.every_store
class TestPruner:
    def test_prunes_everything_whose_time_is_over(self, queues: Queues, clock: ManualClock) -> None:
        queue = queues["email"]
        queue.enqueue_many(range(1100), result_ttl=60)
        queue.enqueue(0, id="kept", result_ttl=600)
        queue.apply(
            [complete(job.record, None, queue.policies.of(job.record)) for job in queue.claim(2000)]
        )
        clock.advance(61)
        pruner = Pruner([queue], 1.0)
        pruner.step()
        assert pruner.stats().done == {"pruned": 1100}
        assert [job.id for job in queue.jobs().jobs] == ["kept"]

    def test_keeps_what_a_registered_reader_needs(self, queues: Queues, clock: ManualClock) -> None:
        queue = queues["email"]
        queue.configure(keep_journal=60.0)
        slow, fast = queue.reader("slow"), queue.reader("fast")
        for id in "abc":
            queue.enqueue(1, id=id)
        for reader, count in ((slow, 2), (fast, 4)):
            reader.read(count)
            reader.save()
        clock.advance(61)
        pruner = Pruner([queue], 1.0)
        pruner.step()
        assert [event.id for event in queue.events()] == ["b", "c"]
        slow.forget()
        pruner.step()
        assert list(queue.events()) == []


class TestMaintenance:
    @pytest.mark.every_store
    def test_a_step_does_all_that_is_due(self, queues: Queues, clock: ManualClock) -> None:
        queue = queues["email"]
        queue.enqueue(1, id="delayed", delay=5)
        queue.enqueue(2, id="poison", max_attempts=1)
        queue.claim(lease=1)
        queue.enqueue(3, id="done", result_ttl=1)
        queue.complete(queue.claim()[0])
        maintenance = Maintenance([queue])
        clock.advance(10)
        maintenance.step()
        stats = maintenance.stats()
        assert (stats.promoted, stats.expired, stats.dead_lettered, stats.pruned) == (1, 1, 1, 1)
        assert [loop.name for loop in stats.loops] == [
            "promoter",
            "reaper",
            "pruner",
            "store monitor",
        ]
        assert all(loop.runs == 1 and loop.last_run is not None for loop in stats.loops)

    def test_works_in_threads_within_a_block(self) -> None:
        with memory_queues() as queues:
            queue = queues["email"]
            arrived = threading.Event()
            watcher = queue.on("promote", lambda event: arrived.set())
            with contextlib.closing(watcher), Maintenance([queue], promote_every=0.01):
                queue.enqueue(1, delay=0.01)
                assert arrived.wait(5)

    def test_queues_of_several_stores_have_loops_of_their_own(self) -> None:
        one, other = memory_queues(), memory_queues()
        maintenance = Maintenance([one["a"], other["b"], one["c"]])
        promoters = [loop for loop in maintenance.loops if loop.name == "promoter"]
        assert [[q.name for q in loop.queues] for loop in promoters] == [["a", "c"], ["b"]]
