"""Limits: a call that asks for more than a store returns at once gets less, never a refusal."""

from __future__ import annotations

from ackline.stores.base import Filter
from ackline.testing.conformance.bench import Bench
from ackline.testing.conformance.case import StoreCase

VERY_MANY = 1_000_000
"""More than any store returns at once."""


class LimitRules(StoreCase):
    """The same call works on every store: a page may be shorter, and the next one continues."""

    def test_a_claim_may_ask_for_very_many(self, bench: Bench) -> None:
        bench.put_all("abc")

        assert bench.take_ids(VERY_MANY) == ["a", "b", "c"]

    def test_leases_may_be_asked_for_very_many(self, bench: Bench) -> None:
        bench.put_all("abcde")
        mine, others = bench.take(3, worker="w1"), bench.take(2, worker="w2")

        assert bench.store.leases(bench.queue, worker="w1", limit=VERY_MANY) == mine
        assert bench.store.leases(bench.queue, worker="w2", limit=VERY_MANY) == others
        assert bench.store.leases(bench.queue, limit=VERY_MANY) == []

    def test_a_list_may_be_asked_for_very_many(self, bench: Bench) -> None:
        bench.put_all("abc")

        assert [job.id for job in bench.listed(page=VERY_MANY)] == ["a", "b", "c"]

    def test_the_journal_may_be_asked_for_very_many(self, bench: Bench) -> None:
        bench.put_all("abc")

        for queue in (bench.queue, None):
            events = bench.store.events(queue, None, VERY_MANY)
            assert [event.id for event in events] == ["a", "b", "c"]

    def test_maintenance_may_be_asked_for_very_many(self, bench: Bench) -> None:
        bench.put_all("abc", delay=5.0)
        bench.clock.advance(10.0)

        assert bench.store.promote(bench.queue, VERY_MANY) == 3
        assert bench.store.purge(bench.queue, Filter(), VERY_MANY) == 3
        assert bench.store.prune(bench.queue, VERY_MANY) == 0

    def test_keys_may_be_asked_for_very_many(self, bench: Bench) -> None:
        for name in "abc":
            bench.write("k", name, value=b"1")

        found = bench.store.read_keys("default", ("k",), VERY_MANY)
        assert [entry.key for entry in found] == [("k", "a"), ("k", "b"), ("k", "c")]

    def test_no_queue_may_be_listened_to(self, bench: Bench) -> None:
        """A reader of all queues of a tenant may listen before the first queue exists."""
        with bench.store.listen([], "changes") as listener:
            listener.wait(0.0)
