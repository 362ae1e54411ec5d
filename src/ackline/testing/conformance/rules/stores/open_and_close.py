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
    """For stores with the capability `persistent`: what was stored is there after reopening."""

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

    def test_everything_is_there_after_reopening(
        self, driver: QueueDriver, reopen: Callable[[], QueueDriver]
    ) -> None:
        """Rule 1."""
        driver.configure(group_limit=4, max_jobs=99)
        driver.complete(driver.enqueue_and_claim("completed"), b"result")
        driver.dead_letter("failed")
        driver.enqueue_and_claim("processing")
        driver.enqueue("queued", priority=3)
        driver.enqueue("scheduled", delay=60.0)
        driver.write("k", value=b"v")
        before = driver.listed(), driver.counts(), driver.journal(), driver.store.describe(None)

        after = reopen()

        assert (
            after.listed(),
            after.counts(),
            after.journal(),
            after.store.describe(None),
        ) == before
        assert after.keys() == {("k",): b"v"}

    def test_tokens_grow_across_a_restart(
        self, driver: QueueDriver, reopen: Callable[[], QueueDriver]
    ) -> None:
        driver.enqueue_all("ab")
        before = driver.claim_one()

        assert reopen().claim_one().token > before.token

    def test_tokens_grow_even_if_the_clock_was_set_back(
        self, driver: QueueDriver, reopen: Callable[[], QueueDriver]
    ) -> None:
        driver.enqueue_all("ab")
        before = driver.claim_one()
        driver.clock.advance(-3600.0)

        assert reopen().claim_one().token > before.token

    def test_a_lease_survives_a_restart_of_the_store(
        self, driver: QueueDriver, reopen: Callable[[], QueueDriver]
    ) -> None:
        job = driver.enqueue_and_claim("a")

        after = reopen()

        assert after.heartbeat(job).lost == []
        assert after.complete(job) == Verdict(True, State.COMPLETED)

    def test_a_journal_cursor_is_valid_after_a_restart(
        self, driver: QueueDriver, reopen: Callable[[], QueueDriver]
    ) -> None:
        driver.enqueue_all("ab")
        cursor = driver.journal()[0].cursor
        after = reopen()
        after.enqueue("c")

        assert [event.id for event in after.store.events(after.queue, cursor, 9)] == ["b", "c"]

    def test_groups_are_kept_after_a_restart(
        self, driver: QueueDriver, reopen: Callable[[], QueueDriver]
    ) -> None:
        driver.enqueue_all("ab", group="g")
        job = driver.claim_one()
        assert driver.claim_jobs() == []

        after = reopen()

        assert after.claim_jobs() == []
        after.complete(job)
        assert after.claim_ids() == ["b"]


class CloseRules(StoreCase):
    """A closed store takes no calls, until it is opened again."""

    VERBS: Mapping[str, Callable[[QueueDriver], object]] = {
        "info": lambda driver: driver.store.info(),
        "now": lambda driver: driver.store.now(),
        "enqueue": lambda driver: driver.enqueue("b"),
        "claim": lambda driver: driver.claim_jobs(),
        "apply": lambda driver: driver.apply(move("a", driver.queue)),
        "heartbeat": lambda driver: driver.heartbeat(),
        "next_due": lambda driver: driver.store.next_due([driver.queue]),
        "promote": lambda driver: driver.store.promote(driver.queue, 1),
        "leases": lambda driver: driver.store.leases(driver.queue),
        "prune": lambda driver: driver.store.prune(driver.queue, 1),
        "get": lambda driver: driver.find("a"),
        "page": lambda driver: driver.listed(),
        "describe": lambda driver: driver.store.describe(None),
        "workers": lambda driver: driver.workers(),
        "events": lambda driver: driver.journal(),
        "configure": lambda driver: driver.configure(paused=True),
        "purge": lambda driver: driver.store.purge(driver.queue, Filter(), 1),
        "drop": lambda driver: driver.store.drop(driver.queue),
        "read_keys": lambda driver: driver.keys(),
        "write_keys": lambda driver: driver.write("k", value=b"v"),
    }

    @pytest.mark.parametrize("verb", VERBS)
    def test_a_closed_store_refuses_work(self, driver: QueueDriver, verb: str) -> None:
        driver.enqueue("a")
        driver.store.close()

        with pytest.raises(StoreUnavailable, match="closed"):
            self.VERBS[verb](driver)

    def test_a_store_that_is_opened_again_has_its_jobs(self, driver: QueueDriver) -> None:
        driver.enqueue("a")
        driver.store.close()
        driver.store.open()

        assert driver.claim_ids() == ["a"]

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
        self, driver: QueueDriver, other: QueueDriver
    ) -> None:
        driver.enqueue("a", payload=b"x")

        job = other.claim_one(worker="w2")

        assert job.payload == b"x"
        assert driver.get("a").worker == "w2"
        assert driver.claim_jobs() == []

    def test_an_id_is_one_job_for_both(self, driver: QueueDriver, other: QueueDriver) -> None:
        """Rule 6."""
        assert driver.enqueue("a").accepted
        assert not other.enqueue("a").accepted

    def test_tokens_grow_from_handle_to_handle(
        self, driver: QueueDriver, other: QueueDriver
    ) -> None:
        driver.enqueue_all("abcdef")

        tokens = [handle.claim_one().token for _ in range(3) for handle in (driver, other)]

        assert tokens == sorted(set(tokens))

    def test_a_lease_is_fenced_across_handles(
        self, driver: QueueDriver, other: QueueDriver
    ) -> None:
        """Rule 2: one handle expires the lease and claims the job, the other is the zombie."""
        zombie = driver.enqueue_and_claim("a")
        driver.clock.advance(LEASE)
        other.sweep()
        job = other.claim_one(worker="w2")

        assert driver.complete(zombie) == Verdict(False, State.PROCESSING)
        assert driver.complete(job) == Verdict(True, State.COMPLETED)

    @pytest.mark.parametrize("assume_new", [False, True])
    def test_a_queue_dropped_by_another_handle_is_created_again(
        self, driver: QueueDriver, other: QueueDriver, assume_new: bool
    ) -> None:
        driver.enqueue("a")
        driver.store.purge(driver.queue, Filter(), 10)
        driver.configure(max_jobs=1)
        assert other.store.drop(other.queue)

        assert all(receipt.accepted for receipt in driver.enqueue_all("bc", assume_new=assume_new))

        assert other.counts() == {State.QUEUED: 2}
        assert other.claim_ids() == ["b", "c"]
        driver.store.purge(driver.queue, Filter(), 10)
        assert other.counts() == {}

    def test_settings_reach_the_other_handle(self, driver: QueueDriver, other: QueueDriver) -> None:
        other.enqueue("a")
        driver.configure(paused=True)
        assert other.claim_jobs() == []

        driver.configure(paused=False)
        assert other.claim_ids() == ["a"]

    def test_a_group_is_one_for_both(self, driver: QueueDriver, other: QueueDriver) -> None:
        driver.enqueue_all("ab", group="g")
        job = driver.claim_one()
        assert other.claim_jobs() == []

        driver.complete(job)

        assert other.claim_ids() == ["b"]

    def test_an_enqueue_wakes_the_other_handle(
        self, driver: QueueDriver, other: QueueDriver
    ) -> None:
        driver.enqueue("before")
        with other.store.listen([driver.queue], "ready") as listener:
            while listener.wait(0.05):
                pass
            driver.enqueue("a")

            assert listener.wait(SOON)

    def test_a_move_wakes_the_other_handle(self, driver: QueueDriver, other: QueueDriver) -> None:
        target = driver.other_queue("target")
        driver.enqueue("a")
        with other.store.listen([target.queue], "ready") as listener:
            while listener.wait(0.05):
                pass
            driver.apply_one(move("a", target.queue))

            assert listener.wait(SOON)

    def test_the_journal_is_one_for_both(self, driver: QueueDriver, other: QueueDriver) -> None:
        driver.enqueue("a")
        other.enqueue("b")
        driver.enqueue("c")

        assert [event.id for event in other.journal()] == ["a", "b", "c"]
        assert driver.journal() == other.journal()
