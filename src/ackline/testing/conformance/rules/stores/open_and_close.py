"""Stores that outlive a process or serve several processes, according to their capabilities."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from ackline.core.clock import ManualClock
from ackline.core.errors import StoreUnavailable
from ackline.core.job import QueueKey, State
from ackline.core.lifecycle import Verdict, move
from ackline.stores.contract import Filter, Store
from ackline.testing.conformance.case import StoreCase
from ackline.testing.conformance.driver import LEASE, QueueDriver

SOON = 5.0


class ReopenRules(StoreCase):
    """For stores with the capability `persistent`: what was answered is there after reopening."""

    @pytest.fixture
    def reopen(
        self, store: Store, open_store: Callable[[], Store], clock: ManualClock
    ) -> Callable[[], QueueDriver]:
        if not store.capabilities.persistent:
            pytest.skip(f"{store.capabilities.name} is not persistent")

        def again() -> QueueDriver:
            store.close()
            return QueueDriver(open_store(), clock, QueueKey("default", "work"))

        return again

    def test_everything_is_there_again(
        self, bench: QueueDriver, reopen: Callable[[], QueueDriver]
    ) -> None:
        """Rule 1."""
        bench.configure(group_limit=4, max_jobs=99)
        bench.complete(bench.taken("completed"), b"result")
        bench.dead_letter("failed")
        bench.taken("processing")
        bench.put("queued", priority=3)
        bench.put("scheduled", delay=60.0)
        bench.write("k", value=b"v")
        before = bench.listed(), bench.counts(), bench.journal(), bench.store.describe(None)

        after = reopen()

        assert (
            after.listed(),
            after.counts(),
            after.journal(),
            after.store.describe(None),
        ) == before
        assert after.keys() == {("k",): b"v"}

    def test_tokens_grow_across_a_restart(
        self, bench: QueueDriver, reopen: Callable[[], QueueDriver]
    ) -> None:
        bench.put_all("ab")
        before = bench.take_one()

        assert reopen().take_one().token > before.token

    def test_tokens_grow_even_if_the_clock_was_set_back(
        self, bench: QueueDriver, reopen: Callable[[], QueueDriver]
    ) -> None:
        bench.put_all("ab")
        before = bench.take_one()
        bench.clock.advance(-3600.0)

        assert reopen().take_one().token > before.token

    def test_a_lease_survives_a_restart_of_the_store(
        self, bench: QueueDriver, reopen: Callable[[], QueueDriver]
    ) -> None:
        job = bench.taken("a")

        after = reopen()

        assert after.heartbeat(job).lost == []
        assert after.complete(job) == Verdict(True, State.COMPLETED)

    def test_a_journal_cursor_is_good_after_a_restart(
        self, bench: QueueDriver, reopen: Callable[[], QueueDriver]
    ) -> None:
        bench.put_all("ab")
        cursor = bench.journal()[0].cursor
        after = reopen()
        after.put("c")

        assert [event.id for event in after.store.events(after.queue, cursor, 9)] == ["b", "c"]

    def test_groups_are_right_after_a_restart(
        self, bench: QueueDriver, reopen: Callable[[], QueueDriver]
    ) -> None:
        bench.put_all("ab", group="g")
        job = bench.take_one()
        assert bench.take() == []

        after = reopen()

        assert after.take() == []
        after.complete(job)
        assert after.take_ids() == ["b"]


class CloseRules(StoreCase):
    """A closed store takes no calls, until it is opened again."""

    VERBS: Mapping[str, Callable[[QueueDriver], object]] = {
        "info": lambda bench: bench.store.info(),
        "now": lambda bench: bench.store.now(),
        "enqueue": lambda bench: bench.put("b"),
        "claim": lambda bench: bench.take(),
        "apply": lambda bench: bench.apply(move("a", bench.queue)),
        "heartbeat": lambda bench: bench.heartbeat(),
        "next_due": lambda bench: bench.store.next_due([bench.queue]),
        "promote": lambda bench: bench.store.promote(bench.queue, 1),
        "leases": lambda bench: bench.store.leases(bench.queue),
        "prune": lambda bench: bench.store.prune(bench.queue, 1),
        "get": lambda bench: bench.find("a"),
        "page": lambda bench: bench.listed(),
        "describe": lambda bench: bench.store.describe(None),
        "workers": lambda bench: bench.workers(),
        "events": lambda bench: bench.journal(),
        "configure": lambda bench: bench.configure(paused=True),
        "purge": lambda bench: bench.store.purge(bench.queue, Filter(), 1),
        "drop": lambda bench: bench.store.drop(bench.queue),
        "read_keys": lambda bench: bench.keys(),
        "write_keys": lambda bench: bench.write("k", value=b"v"),
    }

    @pytest.mark.parametrize("verb", VERBS)
    def test_a_closed_store_refuses_work(self, bench: QueueDriver, verb: str) -> None:
        bench.put("a")
        bench.store.close()

        with pytest.raises(StoreUnavailable, match="closed"):
            self.VERBS[verb](bench)

    def test_a_store_that_is_opened_again_has_its_jobs(self, bench: QueueDriver) -> None:
        bench.put("a")
        bench.store.close()
        bench.store.open()

        assert bench.take_ids() == ["a"]

    def test_a_closed_store_can_be_closed_again(self, store: Store) -> None:
        store.close()
        store.close()


class SharedRules(StoreCase):
    """For stores with the capability `shared`: several handles are one store."""

    @pytest.fixture
    def other(
        self, store: Store, open_store: Callable[[], Store], clock: ManualClock
    ) -> QueueDriver:
        if not store.capabilities.shared:
            pytest.skip(f"{store.capabilities.name} cannot be opened twice at once")
        return QueueDriver(open_store(), clock, QueueKey("default", "work"))

    def test_what_one_enqueues_the_other_claims(
        self, bench: QueueDriver, other: QueueDriver
    ) -> None:
        bench.put("a", payload=b"x")

        job = other.take_one(worker="w2")

        assert job.payload == b"x"
        assert bench.get("a").worker == "w2"
        assert bench.take() == []

    def test_an_id_is_one_job_for_both(self, bench: QueueDriver, other: QueueDriver) -> None:
        """Rule 6."""
        assert bench.put("a").accepted
        assert not other.put("a").accepted

    def test_tokens_grow_from_handle_to_handle(
        self, bench: QueueDriver, other: QueueDriver
    ) -> None:
        bench.put_all("abcdef")

        tokens = [handle.take_one().token for _ in range(3) for handle in (bench, other)]

        assert tokens == sorted(set(tokens))

    def test_a_lease_is_fenced_across_handles(self, bench: QueueDriver, other: QueueDriver) -> None:
        """Rule 2: one sweeps and takes over, the other is the zombie."""
        zombie = bench.taken("a")
        bench.clock.advance(LEASE)
        other.sweep()
        job = other.take_one(worker="w2")

        assert bench.complete(zombie) == Verdict(False, State.PROCESSING)
        assert bench.complete(job) == Verdict(True, State.COMPLETED)

    @pytest.mark.parametrize("surely_new", [False, True])
    def test_a_queue_that_was_dropped_elsewhere_is_made_anew(
        self, bench: QueueDriver, other: QueueDriver, surely_new: bool
    ) -> None:
        bench.put("a")
        bench.store.purge(bench.queue, Filter(), 10)
        bench.configure(max_jobs=1)
        assert other.store.drop(other.queue)

        assert all(receipt.accepted for receipt in bench.put_all("bc", surely_new=surely_new))

        assert other.counts() == {State.QUEUED: 2}
        assert other.take_ids() == ["b", "c"]
        bench.store.purge(bench.queue, Filter(), 10)
        assert other.counts() == {}

    def test_settings_reach_the_other_handle(self, bench: QueueDriver, other: QueueDriver) -> None:
        other.put("a")
        bench.configure(paused=True)
        assert other.take() == []

        bench.configure(paused=False)
        assert other.take_ids() == ["a"]

    def test_a_group_is_one_for_both(self, bench: QueueDriver, other: QueueDriver) -> None:
        bench.put_all("ab", group="g")
        job = bench.take_one()
        assert other.take() == []

        bench.complete(job)

        assert other.take_ids() == ["b"]

    def test_an_enqueue_wakes_the_other_handle(
        self, bench: QueueDriver, other: QueueDriver
    ) -> None:
        bench.put("before")
        with other.store.listen([bench.queue], "ready") as listener:
            while listener.wait(0.05):
                pass
            bench.put("a")

            assert listener.wait(SOON)

    def test_a_move_wakes_the_other_handle(self, bench: QueueDriver, other: QueueDriver) -> None:
        target = bench.other_queue("target")
        bench.put("a")
        with other.store.listen([target.queue], "ready") as listener:
            while listener.wait(0.05):
                pass
            bench.apply_one(move("a", target.queue))

            assert listener.wait(SOON)

    def test_the_journal_is_one_for_both(self, bench: QueueDriver, other: QueueDriver) -> None:
        bench.put("a")
        other.put("b")
        bench.put("c")

        assert [event.id for event in other.journal()] == ["a", "b", "c"]
        assert bench.journal() == other.journal()
