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

    def test_nothing_is_left_in_sight(self, bench: QueueDriver) -> None:
        bench.configure(paused=True, max_jobs=7)
        bench.heartbeat()
        bench.put("a")
        bench.store.purge(bench.queue, Filter(), 10)

        assert bench.store.drop(bench.queue, "me")

        assert bench.store.describe(None) == []
        assert bench.store.describe("default", "work") == []
        assert bench.workers() == []
        assert bench.listed() == []
        assert bench.find("a") is None

    def test_the_journal_stays_and_tells(self, bench: QueueDriver) -> None:
        bench.taken("a")
        bench.store.purge(bench.queue, Filter(), 10)
        bench.store.drop(bench.queue, "me")

        recorded = [(event.act, event.id, event.by) for event in bench.journal()]

        assert [act for act, _, _ in recorded] == [Act.ENQUEUE, Act.CLAIM, Act.PURGE, Act.DROP]
        assert recorded[-1] == (Act.DROP, "", "me")
        assert bench.store.events(None, None, 10) == bench.journal()

    def test_a_queue_with_jobs_stays(self, bench: QueueDriver) -> None:
        """Whatever their state."""
        bench.configure(max_jobs=7)
        for state in State:
            self._put(bench, state)
            before = bench.listed(), bench.journal(), bench.store.describe(None)

            assert not bench.store.drop(bench.queue)

            assert (bench.listed(), bench.journal(), bench.store.describe(None)) == before
            bench.store.purge(bench.queue, Filter(), 10)

    def _put(self, bench: QueueDriver, state: State) -> None:
        match state:
            case State.QUEUED:
                bench.put("a")
            case State.SCHEDULED:
                bench.put("a", delay=60.0)
            case State.PROCESSING:
                bench.taken("a")
            case State.FAILING:
                bench.fail(bench.taken("a"))
            case State.COMPLETED:
                bench.complete(bench.taken("a"))
            case State.FAILED:
                bench.dead_letter("a")
            case State.CANCELLED:
                bench.put("a")
                bench.apply_one(cancel("a", DEFAULTS))
        assert bench.state("a") is state

    def test_a_job_makes_it_anew(self, bench: QueueDriver) -> None:
        before = bench.taken("a")
        bench.store.purge(bench.queue, Filter(), 10)
        bench.configure(paused=True, max_jobs=1)
        bench.store.drop(bench.queue)

        bench.put_all("ab")

        [info] = bench.store.describe(None)
        assert (info.key, info.settings) == (bench.queue, QueueSettings())
        assert bench.counts() == {State.QUEUED: 2}
        first = bench.take_one()
        assert (first.id, first.attempts) == ("a", 1)
        assert first.token > before.token
        bench.complete(first)
        bench.complete(bench.take_one())
        assert bench.counts() == {State.COMPLETED: 2}

    def test_a_move_makes_it_anew(self, bench: QueueDriver) -> None:
        other = bench.other_queue("other")
        other.configure(paused=True)
        other.store.drop(other.queue)
        bench.put("a")

        assert bench.apply_one(move("a", other.queue)).applied

        assert other.counts() == {State.QUEUED: 1}
        assert other.take_ids() == ["a"]

    def test_settings_make_it_anew(self, bench: QueueDriver) -> None:
        bench.configure(paused=True)
        bench.store.drop(bench.queue)
        bench.configure(max_jobs=3)

        [info] = bench.store.describe(None)
        assert info.settings == QueueSettings(max_jobs=3)

    def test_it_can_be_sent_again(self, bench: QueueDriver) -> None:
        bench.configure(paused=True)

        assert bench.store.drop(bench.queue)
        assert bench.store.drop(bench.queue)
        assert [event.act for event in bench.journal()] == [Act.PAUSE, Act.DROP]

    def test_what_was_never_there_leaves_no_trace(self, bench: QueueDriver) -> None:
        assert bench.store.drop(bench.queue)

        assert bench.store.describe(None, include_dropped=True) == []
        assert bench.journal() == []

    def test_other_queues_are_untouched(self, bench: QueueDriver) -> None:
        others = [bench.other_queue("work:2"), bench.other_queue("work", tenant="acme")]
        for other in others:
            other.put("a")
        bench.configure(paused=True)

        bench.store.drop(bench.queue)

        assert [info.key for info in bench.store.describe(None)] == sorted(
            other.queue for other in others
        )
        assert all(other.take_ids() == ["a"] for other in others)

    def test_its_journal_is_pruned_like_any(self, bench: QueueDriver) -> None:
        bench.configure(paused=True)
        bench.store.drop(bench.queue)
        [info] = bench.store.describe(None, include_dropped=True)
        assert info.key == bench.queue
        bench.clock.advance(8 * 86_400.0)

        bench.store.prune(bench.queue, 10)

        assert bench.journal() == []
        assert bench.store.describe(None) == []

    def test_no_accepted_job_goes_with_it(self, bench: QueueDriver) -> None:
        """Rule 1, with an enqueue and a drop at the same moment."""
        assert jobs_lost_to_drops(bench.store, bench.queue) == []


def jobs_lost_to_drops(store: Store, queue: QueueKey) -> list[str]:
    """The jobs missing right after their enqueue, while another thread keeps dropping the queue."""
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
