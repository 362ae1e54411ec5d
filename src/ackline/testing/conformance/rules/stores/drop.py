"""Dropping a queue: only its journal is left, and no job is lost with it."""

from __future__ import annotations

import threading

from ackline.core.config import DEFAULTS, QueueSettings
from ackline.core.events import Act
from ackline.core.job import QueueKey, State
from ackline.core.lifecycle import cancel, move
from ackline.stores.contract import Filter, Store
from ackline.testing.conformance.case import StoreCase
from ackline.testing.conformance.driver import QueueDriver, draft

PRODUCERS, ROUNDS = 3, 25


class DropRules(StoreCase):
    """A queue with jobs is not dropped; of a queue without jobs, the journal stays."""

    def test_a_dropped_queue_is_not_listed(self, driver: QueueDriver) -> None:
        driver.configure(paused=True, max_jobs=7)
        driver.heartbeat()
        driver.enqueue("a")
        driver.store.purge(driver.queue, Filter(), 10)

        assert driver.store.drop(driver.queue, "me")

        assert driver.store.describe(None) == []
        assert driver.store.describe("default", "work") == []
        assert driver.workers() == []
        assert driver.listed() == []
        assert driver.find("a") is None

    def test_the_journal_stays_and_records_the_drop(self, driver: QueueDriver) -> None:
        driver.enqueue_and_claim("a")
        driver.store.purge(driver.queue, Filter(), 10)
        driver.store.drop(driver.queue, "me")

        recorded = [(event.act, event.id, event.by) for event in driver.journal()]

        assert [act for act, _, _ in recorded] == [Act.ENQUEUE, Act.CLAIM, Act.PURGE, Act.DROP]
        assert recorded[-1] == (Act.DROP, "", "me")
        assert driver.store.events(None, None, 10) == driver.journal()

    def test_a_queue_with_jobs_stays(self, driver: QueueDriver) -> None:
        """Whatever their state."""
        driver.configure(max_jobs=7)
        for state in State:
            self._put(driver, state)
            before = driver.listed(), driver.journal(), driver.store.describe(None)

            assert not driver.store.drop(driver.queue)

            assert (driver.listed(), driver.journal(), driver.store.describe(None)) == before
            driver.store.purge(driver.queue, Filter(), 10)

    def _put(self, driver: QueueDriver, state: State) -> None:
        match state:
            case State.QUEUED:
                driver.enqueue("a")
            case State.SCHEDULED:
                driver.enqueue("a", delay=60.0)
            case State.PROCESSING:
                driver.enqueue_and_claim("a")
            case State.FAILING:
                driver.fail(driver.enqueue_and_claim("a"))
            case State.COMPLETED:
                driver.complete(driver.enqueue_and_claim("a"))
            case State.FAILED:
                driver.dead_letter("a")
            case State.CANCELLED:
                driver.enqueue("a")
                driver.apply_one(cancel("a", DEFAULTS))
        assert driver.state("a") is state

    def test_a_job_creates_it_again(self, driver: QueueDriver) -> None:
        before = driver.enqueue_and_claim("a")
        driver.store.purge(driver.queue, Filter(), 10)
        driver.configure(paused=True, max_jobs=1)
        driver.store.drop(driver.queue)

        driver.enqueue_all("ab")

        [info] = driver.store.describe(None)
        assert (info.key, info.settings) == (driver.queue, QueueSettings())
        assert driver.counts() == {State.QUEUED: 2}
        first = driver.claim_one()
        assert (first.id, first.attempts) == ("a", 1)
        assert first.token > before.token
        driver.complete(first)
        driver.complete(driver.claim_one())
        assert driver.counts() == {State.COMPLETED: 2}

    def test_a_move_creates_it_again(self, driver: QueueDriver) -> None:
        other = driver.other_queue("other")
        other.configure(paused=True)
        other.store.drop(other.queue)
        driver.enqueue("a")

        assert driver.apply_one(move("a", other.queue)).applied

        assert other.counts() == {State.QUEUED: 1}
        assert other.claim_ids() == ["a"]

    def test_settings_create_it_again(self, driver: QueueDriver) -> None:
        driver.configure(paused=True)
        driver.store.drop(driver.queue)
        driver.configure(max_jobs=3)

        [info] = driver.store.describe(None)
        assert info.settings == QueueSettings(max_jobs=3)

    def test_a_repeated_drop_changes_nothing(self, driver: QueueDriver) -> None:
        driver.configure(paused=True)

        assert driver.store.drop(driver.queue)
        assert driver.store.drop(driver.queue)
        assert [event.act for event in driver.journal()] == [Act.PAUSE, Act.DROP]

    def test_dropping_an_unknown_queue_leaves_no_trace(self, driver: QueueDriver) -> None:
        assert driver.store.drop(driver.queue)

        assert driver.store.describe(None, include_dropped=True) == []
        assert driver.journal() == []

    def test_other_queues_are_untouched(self, driver: QueueDriver) -> None:
        others = [driver.other_queue("work:2"), driver.other_queue("work", tenant="acme")]
        for other in others:
            other.enqueue("a")
        driver.configure(paused=True)

        driver.store.drop(driver.queue)

        assert [info.key for info in driver.store.describe(None)] == sorted(
            other.queue for other in others
        )
        assert all(other.claim_ids() == ["a"] for other in others)

    def test_its_journal_is_pruned_like_any_other(self, driver: QueueDriver) -> None:
        driver.configure(paused=True)
        driver.store.drop(driver.queue)
        [info] = driver.store.describe(None, include_dropped=True)
        assert info.key == driver.queue
        driver.clock.advance(8 * 86_400.0)

        driver.store.prune(driver.queue, 10)

        assert driver.journal() == []
        assert driver.store.describe(None) == []

    def test_no_accepted_job_is_lost(self, driver: QueueDriver) -> None:
        """Rule 1, with an enqueue and a drop at the same moment."""
        assert jobs_lost_to_drops(driver.store, driver.queue) == []


def jobs_lost_to_drops(store: Store, queue: QueueKey) -> list[str]:
    """The jobs that are missing after their enqueue, while a thread keeps dropping the queue."""
    lost: list[str] = []
    finished = threading.Event()

    def produce(name: int) -> None:
        for turn in range(ROUNDS):
            id = f"{name}-{turn}"
            store.enqueue(queue, [draft(id)])
            if store.get(queue, [id]) == [None]:
                lost.append(id)
            store.purge(queue, Filter(ids=frozenset({id})), 1)

    def drop() -> None:
        while not finished.is_set():
            store.drop(queue)

    producers = [threading.Thread(target=produce, args=[name]) for name in range(PRODUCERS)]
    dropper = threading.Thread(target=drop)
    for thread in (dropper, *producers):
        thread.start()
    for thread in producers:
        thread.join()
    finished.set()
    dropper.join()
    return lost
