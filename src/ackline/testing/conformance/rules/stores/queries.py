"""Counts, pages and descriptions are true."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import msgspec
import pytest

from ackline.core.config import DEFAULTS, Policy, QueueSettings
from ackline.core.errors import AcklineError, ConfigError
from ackline.core.job import QueueKey, State
from ackline.core.lifecycle import Edit, cancel, edit, redrive, release, snooze
from ackline.core.retry import Backoff, exponential
from ackline.queue.transfer.snapshot import snapshot_jobs
from ackline.stores.contract import Filter, NextDue
from ackline.testing.conformance.case import StoreCase
from ackline.testing.conformance.driver import LEASE, QueueDriver, policy_of


class CountRules(StoreCase):
    """The counts are updated with each step, and equal the stored jobs after every step."""

    def test_counts_equal_the_truth_after_every_step(self, bench: QueueDriver) -> None:
        """Rule 1: every job in exactly one state."""

        def retire() -> None:
            bench.clock.advance(100_000.0)
            bench.store.prune(bench.queue, 100)

        steps: tuple[Callable[[], object], ...] = (
            lambda: bench.put_all(map(str, range(12)), max_attempts=2, group="g"),
            lambda: bench.configure(group_limit=8),
            lambda: bench.take(8),
            lambda: bench.complete(bench.get("0")),
            lambda: bench.fail(bench.get("1")),
            lambda: bench.apply_one(release(bench.get("2"), DEFAULTS)),
            lambda: bench.apply_one(snooze(bench.get("3"), 10.0, DEFAULTS)),
            lambda: bench.put_all(["0", "new", "new"]),
            lambda: bench.apply_one(cancel("4", policy_of(bench.get("4")))),
            lambda: bench.apply_one(cancel("8", policy_of(bench.get("8")))),
            lambda: bench.apply_one(edit("9", Edit(delay=5.0))),
            lambda: bench.clock.advance(LEASE),
            bench.sweep,
            lambda: bench.take(8),
            lambda: bench.fail(bench.get("5")),
            lambda: bench.apply_one(redrive("5")),
            lambda: bench.put("8"),
            lambda: bench.store.promote(bench.queue, 100),
            lambda: bench.store.purge(bench.queue, Filter(ids=frozenset({"6", "9"})), 10),
            retire,
        )
        for step in steps:
            step()
            truth = Counter(job.state for job in bench.listed())
            assert bench.counts() == truth

    def test_an_answer_to_a_duplicate_does_not_count(self, bench: QueueDriver) -> None:
        bench.put("a")
        bench.put("a")
        bench.put_all("aa")

        assert bench.counts() == {State.QUEUED: 1}


class DescribeRules(StoreCase):
    """Which queues there are."""

    def test_queues_of_a_tenant_of_all_and_by_name(self, bench: QueueDriver) -> None:
        for tenant, name in (("b", "x"), ("a", "y"), ("a", "x")):
            bench.other_queue(name, tenant=tenant).put("1")

        def keys(tenant: str | None, name: str | None = None) -> list[QueueKey]:
            return sorted(info.key for info in bench.store.describe(tenant, name))

        a_x, a_y, b_x = QueueKey("a", "x"), QueueKey("a", "y"), QueueKey("b", "x")
        assert keys("a") == [a_x, a_y]
        assert keys(None) == [a_x, a_y, b_x]
        assert keys("a", "x") == [a_x]
        assert keys(None, "x") == [a_x, b_x]
        assert keys("nobody") == []

    def test_settings_come_back_as_they_were_given(self, bench: QueueDriver) -> None:
        settings = QueueSettings(
            policy=Policy(max_attempts=4, backoff=exponential(2.0, cap=9.0)),
            kinds={"mail": Policy(lease=1.5), "é": Policy(keep_failed=0.0)},
            paused=True,
            ageing=0.0,
            group_limit=3,
            max_jobs=17,
            keep_journal=12.0,
            max_journal=99,
        )

        bench.store.configure(bench.queue, settings)

        [info] = bench.store.describe("default", "work")
        assert info.settings == settings

    @pytest.mark.parametrize(
        "settings",
        [
            QueueSettings(group_limit=1.5),  # type: ignore[arg-type]
            QueueSettings(paused="yes"),  # type: ignore[arg-type]
            QueueSettings(kinds={"mail": Policy(backoff=Backoff("slower"))}),  # type: ignore[arg-type]
            QueueSettings(kinds={"mail": Policy(backoff=Backoff("fixed", jitter="some"))}),  # type: ignore[arg-type]
        ],
        ids=["number", "flag", "shape", "jitter"],
    )
    def test_settings_that_cannot_be_read_back_are_refused(
        self, bench: QueueDriver, settings: QueueSettings
    ) -> None:
        """One process must not write settings that stop all others."""
        bench.put("a")
        kept = QueueSettings(ageing=7.0)
        bench.store.configure(bench.queue, kept)

        with pytest.raises(ConfigError, match="invalid settings"):
            bench.store.configure(bench.queue, settings)

        [info] = bench.store.describe("default")
        assert info.settings == kept
        assert bench.take_ids() == ["a"]

    def test_settings_that_others_have_changed_are_not_overwritten(
        self, bench: QueueDriver
    ) -> None:
        """Two processes change settings at once: the second is refused, and must read again."""
        seen = QueueSettings()
        paused, limited = QueueSettings(paused=True), QueueSettings(group_limit=7)

        assert bench.store.configure(bench.queue, paused, expected=seen)
        entries = len(bench.journal())
        assert not bench.store.configure(bench.queue, limited, expected=seen)

        [info] = bench.store.describe("default", "work")
        assert info.settings == paused
        assert len(bench.journal()) == entries

    def test_to_look_makes_no_queue(self, bench: QueueDriver) -> None:
        bench.find("a")
        bench.listed()
        bench.take()
        bench.journal()
        bench.store.leases(bench.queue)
        bench.store.next_due([bench.queue])
        bench.store.promote(bench.queue, 1)

        assert bench.store.describe(None) == []

    def test_a_store_tells_what_it_is(self, bench: QueueDriver) -> None:
        """Rule 1: its durability names the point at which a job is safe."""
        info = bench.store.info()

        assert info.name == bench.store.capabilities.name
        assert info.durability
        assert info.location
        assert info.now == bench.store.now() == bench.clock.now()
        assert bench.store.capabilities.batch_size > 0


class NextDueRules(StoreCase):
    """Whoever maintains a queue can ask when it needs that next, and changes nothing by asking."""

    def test_an_empty_queue_needs_nobody(self, bench: QueueDriver) -> None:
        bench.put("queued")
        bench.complete(bench.take_one())

        assert bench.store.next_due([bench.queue]) == [NextDue(None, None)]

    def test_the_first_job_and_the_first_lease_count(self, bench: QueueDriver) -> None:
        now = bench.clock.now()
        bench.put_all("abc")
        bench.put("later", delay=70.0)
        bench.put("sooner", delay=60.0)
        bench.take(1, lease=50.0)
        bench.take(1, lease=40.0)
        assert bench.store.next_due([bench.queue]) == [NextDue(now + 60.0, now + 40.0)]

        bench.fail(bench.take_one(lease=1.0), delay=20.0)

        assert bench.store.next_due([bench.queue]) == [NextDue(now + 20.0, now + 40.0)]

    def test_what_is_past_counts_until_it_is_seen_to(self, bench: QueueDriver) -> None:
        now = bench.clock.now()
        bench.taken("leased")
        bench.put("due", delay=10.0)
        bench.configure(paused=True)
        bench.clock.advance(100.0)
        assert bench.store.next_due([bench.queue]) == [NextDue(now + 10.0, now + LEASE)]
        assert bench.state("due") is State.SCHEDULED

        bench.store.promote(bench.queue, 1)
        bench.sweep()

        assert bench.store.next_due([bench.queue]) == [NextDue(None, None)]

    def test_an_extended_lease_counts_with_its_new_end(self, bench: QueueDriver) -> None:
        now = bench.clock.now()
        job = bench.taken("a")
        bench.clock.advance(10.0)

        bench.heartbeat(job)

        assert bench.store.next_due([bench.queue]) == [NextDue(None, now + 10.0 + LEASE)]

    def test_each_queue_has_its_own_answer_in_the_order_asked(self, bench: QueueDriver) -> None:
        now, other, missing = (
            bench.clock.now(),
            bench.other_queue("other"),
            bench.other_queue("missing"),
        )
        bench.put("a", delay=10.0)
        other.put("b", delay=20.0)

        asked = [other.queue, missing.queue, bench.queue]
        answers = [due.job_at for due in bench.store.next_due(asked)]

        assert answers == [now + 20.0, None, now + 10.0]
        assert bench.store.next_due([]) == []


class PageRules(StoreCase):
    """Every job is listed once, however small the pages are."""

    def test_pages_together_are_the_whole(self, bench: QueueDriver) -> None:
        bench.put_all(map(str, range(7)), delay=5.0)
        bench.put_all("abcdefg", priority=3)
        bench.take(2)

        whole = bench.listed()

        assert len(whole) == 14
        for size in (1, 2, 3, 7, 14):
            assert bench.listed(page=size) == whole

    def test_states_come_in_their_order_and_jobs_in_the_order_of_their_line(
        self, bench: QueueDriver
    ) -> None:
        bench.put("low", priority=1)
        bench.put("high", priority=9)
        bench.put("later", delay=9.0)
        bench.put("sooner", delay=3.0)

        assert [job.id for job in bench.listed()] == ["sooner", "later", "high", "low"]

    def test_jobs_that_come_in_between_pages_do_not_shift_the_others(
        self, bench: QueueDriver
    ) -> None:
        bench.put_all("abcdef")
        first = bench.store.page(bench.queue, Filter(), None, 3)
        bench.put_all("uvw", priority=9)
        bench.store.purge(bench.queue, Filter(ids=frozenset("a")), 1)

        second = bench.store.page(bench.queue, Filter(), first.cursor, 100)

        assert [job.id for job in first.jobs + second.jobs] == list("abcdef")

    def test_each_job_comes_once_though_others_change_their_state(self, bench: QueueDriver) -> None:
        bench.put_all("abcdefgh")
        first, second = bench.take(2)
        bench.clock.advance(5.0)  # so that the steps above do not count as changes
        pieces = snapshot_jobs(bench.store, bench.queue, Filter(), size=2)
        found = next(pieces)  # leased jobs come behind those that are queued
        bench.apply(release(first, policy_of(first)))
        bench.complete(second)
        third = bench.take_one()
        found += next(pieces)
        bench.fail(third, delay=60.0)
        bench.take(2)

        found += [job for piece in pieces for job in piece]

        assert sorted(job.id for job in found) == list("abcdefgh")

    def test_each_job_comes_once_where_no_journal_is_kept(self, bench: QueueDriver) -> None:
        bench.store.configure(bench.queue, QueueSettings(max_journal=0))
        bench.put_all("abcdef")
        [taken] = bench.take(1)
        bench.clock.advance(5.0)
        pieces = snapshot_jobs(bench.store, bench.queue, Filter(), size=2)
        found = next(pieces)
        bench.apply(release(taken, policy_of(taken)))
        bench.store.prune(bench.queue, 100)

        found += [job for piece in pieces for job in piece]

        assert sorted(job.id for job in found) == list("abcdef")

    def test_heartbeats_between_pages_do_not_shift_leased_jobs(self, bench: QueueDriver) -> None:
        bench.put_all("abcdef")
        jobs = bench.take(6)
        first = bench.store.page(bench.queue, Filter(), None, 3)
        bench.clock.advance(1.0)
        bench.heartbeat(jobs[0], jobs[5])

        second = bench.store.page(bench.queue, Filter(), first.cursor, 3)

        assert [job.id for job in first.jobs + second.jobs] == list("abcdef")

    def test_the_newest_first_is_each_line_from_its_end(self, bench: QueueDriver) -> None:
        bench.put_all(map(str, range(5)), delay=5.0)
        bench.put_all("abcdef", priority=3)
        bench.put_all("ghi", priority=7, kind="other")
        for job in bench.take(3):
            bench.complete(job)
            bench.clock.advance(1.0)
        bench.take(3)

        whole = bench.listed()
        wanted = [
            job for state in State for job in reversed([j for j in whole if j.state is state])
        ]

        assert len({job.state for job in whole}) == 4
        for size in (1, 2, 3, 7, 14):
            assert bench.listed(page=size, newest_first=True) == wanted
        every_second = Filter(ids=frozenset(job.id for job in wanted[::2]))
        assert bench.listed(every_second, page=2, newest_first=True) == wanted[::2]

    def test_what_ends_between_pages_does_not_shift_the_older(self, bench: QueueDriver) -> None:
        bench.put_all("abcdef")
        jobs = bench.take(6)
        for job in jobs[:5]:
            bench.complete(job)
            bench.clock.advance(1.0)
        done = Filter(states=frozenset({State.COMPLETED}))
        first = bench.store.page(bench.queue, done, None, 2, newest_first=True)
        bench.complete(jobs[5])

        second = bench.store.page(bench.queue, done, first.cursor, 9, newest_first=True)

        assert [job.id for job in first.jobs + second.jobs] == list("edcba")

    def test_a_cursor_of_the_other_order_is_refused(self, bench: QueueDriver) -> None:
        bench.put_all("abc")
        cursors = [
            bench.store.page(bench.queue, Filter(), None, 1, newest_first).cursor
            for newest_first in (False, True)
        ]

        for cursor, newest_first in zip(cursors, (True, False), strict=True):
            with pytest.raises((msgspec.ValidationError, AcklineError)):
                bench.store.page(bench.queue, Filter(), cursor, 1, newest_first)

    def test_the_last_page_has_no_cursor(self, bench: QueueDriver) -> None:
        bench.put_all("abc")

        assert bench.store.page(bench.queue, Filter(), None, 3).cursor is None
        assert bench.store.page(bench.queue, Filter(), None, 2).cursor is not None

    def test_each_filter_narrows(self, bench: QueueDriver) -> None:
        bench.put("a", kind="mail", payload=b'"x needle y"')
        bench.clock.advance(10.0)
        middle = bench.clock.now()
        bench.put("b", kind="image", payload="süß".encode())
        bench.clock.advance(10.0)
        bench.put("c", kind="mail", delay=5.0)

        def ids(which: Filter) -> str:
            return "".join(sorted(job.id for job in bench.listed(which, page=1)))

        assert ids(Filter(states=frozenset({State.QUEUED}))) == "ab"
        assert ids(Filter(states=frozenset())) == ""
        assert ids(Filter(kinds=frozenset({"mail"}))) == "ac"
        assert ids(Filter(kinds=frozenset())) == ""
        assert ids(Filter(ids=frozenset({"b", "c", "z"}))) == "bc"
        assert ids(Filter(ids=frozenset())) == ""
        assert ids(Filter(text="needle")) == "a"
        assert ids(Filter(text="üß")) == "b"
        assert ids(Filter(created_after=middle)) == "bc"
        assert ids(Filter(created_before=middle)) == "a"
        assert ids(Filter(kinds=frozenset({"mail"}), created_after=middle)) == "c"

    def test_a_text_is_taken_literally(self, bench: QueueDriver) -> None:
        """No pattern, no quoting trick."""
        bench.put("a", payload=b"100% _of_ 'it'")
        bench.put("b", payload=b"100 of it")

        for text in ("100%", "_of_", "'it'"):
            assert [job.id for job in bench.listed(Filter(text=text))] == ["a"]
        assert bench.listed(Filter(text="1%t")) == []

    def test_get_answers_in_the_order_asked(self, bench: QueueDriver) -> None:
        bench.put_all("ab")

        found = bench.store.get(bench.queue, ["b", "x", "a", "b"])

        assert [job.id if job else None for job in found] == ["b", None, "a", "b"]
        assert bench.store.get(bench.queue, []) == []

    def test_get_of_very_many_ids(self, bench: QueueDriver) -> None:
        bench.put_all(map(str, range(0, 3000, 3)))

        found = bench.store.get(bench.queue, [str(n) for n in range(3000)])

        assert [job is not None for job in found] == [n % 3 == 0 for n in range(3000)]
