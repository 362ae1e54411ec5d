"""What is deleted: by retention, and on request."""

from __future__ import annotations

import pytest

from ackline.core.events import Act
from ackline.core.job import State
from ackline.core.lifecycle import Edit, Verdict, cancel, edit
from ackline.stores.contract import Filter
from ackline.testing.conformance.case import StoreCase
from ackline.testing.conformance.driver import QueueDriver, policy_of

LONG = 20 * 365 * 86400.0


class PruneRules(StoreCase):
    """Prune: terminal jobs after their retention, and only those."""

    def test_a_terminal_job_goes_when_its_time_is_over(self, bench: QueueDriver) -> None:
        bench.complete(bench.taken("a", result_ttl=60.0))
        bench.clock.advance(59.0)
        assert bench.store.prune(bench.queue, 100) == 0

        bench.clock.advance(1.0)

        assert bench.store.prune(bench.queue, 100) == 1
        assert bench.counts() == {}
        assert bench.steps("a")[-1] == (Act.PRUNE, State.COMPLETED, None)

    def test_each_terminal_state_is_pruned(self, bench: QueueDriver) -> None:
        bench.complete(bench.taken("completed"))
        bench.dead_letter("failed")
        bench.put("cancelled")
        bench.apply_one(cancel("cancelled", policy_of(bench.get("cancelled"))))
        bench.clock.advance(LONG)

        assert bench.store.prune(bench.queue, 100) == 3
        assert bench.counts() == {}

    def test_a_job_scheduled_beyond_retention_is_not_deleted(self, bench: QueueDriver) -> None:
        """Such jobs were deleted silently (codeQ)."""
        bench.put("a", delay=9 * 365 * 86400.0)
        bench.clock.advance(8 * 365 * 86400.0)
        bench.store.prune(bench.queue, 100)
        assert bench.state("a") is State.SCHEDULED

        bench.clock.advance(365 * 86400.0)

        assert bench.take_ids() == ["a"]

    def test_no_live_job_is_ever_pruned(self, bench: QueueDriver) -> None:
        """Rule 1, whatever its age."""
        bench.fail(bench.taken("failing"))
        bench.taken("processing")
        bench.put("queued")
        bench.put("scheduled", delay=1.0)
        bench.clock.advance(LONG)

        assert bench.store.prune(bench.queue, 100) == 0
        assert sum(bench.counts().values()) == 4

    def test_prune_is_bounded(self, bench: QueueDriver) -> None:
        bench.put_all("abc", result_ttl=0.0)
        for job in bench.take(3):
            bench.complete(job)

        assert [bench.store.prune(bench.queue, 2) for _ in range(3)] == [2, 1, 0]

    def test_what_is_past_its_time_cannot_be_seen_even_unpruned(self, bench: QueueDriver) -> None:
        """Rule 7: the TTL holds whether or not maintenance runs."""
        job = bench.taken("a", result_ttl=5.0)
        bench.complete(job)
        bench.clock.advance(5.0)

        assert bench.find("a") is None
        assert bench.listed() == []
        assert bench.complete(job) == Verdict(False, None)
        assert bench.apply_one(edit("a", Edit(keep=100.0))) == Verdict(False, None)

    def test_prune_reaches_no_other_queue(self, bench: QueueDriver) -> None:
        other = bench.other_queue("other")
        other.complete(other.taken("a"))
        bench.put("b")
        bench.clock.advance(LONG)

        assert bench.store.prune(bench.queue, 100) == 0
        assert other.counts() == {State.COMPLETED: 1}

    def test_prune_of_an_unknown_queue_is_nothing(self, bench: QueueDriver) -> None:
        assert bench.store.prune(bench.queue, 100) == 0


class PurgeRules(StoreCase):
    """Purge: what matches, in this queue of this tenant, whatever its state."""

    def test_purge_reaches_only_this_queue_of_this_tenant(self, bench: QueueDriver) -> None:
        """The fault to avoid: a clear that ignored the queue's name (relay)."""
        others = [bench.other_queue("other"), bench.other_queue("work", tenant="acme")]
        for each in (bench, *others):
            each.put_all("ab")

        assert bench.store.purge(bench.queue, Filter(), 100) == 2

        assert bench.counts() == {}
        assert [other.counts() for other in others] == [{State.QUEUED: 2}] * 2

    def test_purge_takes_every_state(self, bench: QueueDriver) -> None:
        bench.complete(bench.taken("completed"))
        bench.dead_letter("failed")
        bench.fail(bench.taken("failing"))
        running = bench.taken("processing")
        bench.put("queued")
        bench.put("scheduled", delay=60.0)

        assert bench.store.purge(bench.queue, Filter(), 100, by="me") == 6

        assert bench.counts() == {}
        assert bench.complete(running) == Verdict(False, None)
        assert {(event.act, event.by) for event in bench.journal()[-6:]} == {(Act.PURGE, "me")}

    @pytest.mark.parametrize(
        ("which", "left"),
        [
            (Filter(states=frozenset({State.SCHEDULED})), "ab"),
            (Filter(kinds=frozenset({"image"})), "ac"),
            (Filter(ids=frozenset({"a", "c", "z"})), "b"),
            (Filter(text="needle"), "bc"),
            (Filter(states=frozenset()), "abc"),
        ],
    )
    def test_purge_takes_only_what_matches(
        self, bench: QueueDriver, which: Filter, left: str
    ) -> None:
        bench.put("a", payload=b'"a needle here"')
        bench.put("b", kind="image")
        bench.put("c", delay=60.0)

        bench.store.purge(bench.queue, which, 100)

        assert "".join(id for id in "abc" if bench.find(id)) == left

    def test_purge_is_bounded_and_called_until_nothing_is_left(self, bench: QueueDriver) -> None:
        bench.put_all("abcde")

        assert [bench.store.purge(bench.queue, Filter(), 2) for _ in range(4)] == [2, 2, 1, 0]

    def test_a_purged_job_is_never_handed_out(self, bench: QueueDriver) -> None:
        bench.put_all("ab")
        bench.store.purge(bench.queue, Filter(ids=frozenset("a")), 1)

        assert bench.take_ids() == ["b"]

    def test_a_purged_scheduled_job_is_never_promoted(self, bench: QueueDriver) -> None:
        bench.put("a", delay=1.0)
        bench.store.purge(bench.queue, Filter(), 1)
        bench.clock.advance(2.0)

        assert bench.store.promote(bench.queue, 10) == 0
        assert bench.take() == []
