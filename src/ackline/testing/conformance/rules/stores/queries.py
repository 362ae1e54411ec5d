"""Counts, pages and descriptions are correct."""

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
from ackline.stores.contract import Filter, LeaseExtension, NextDue
from ackline.testing.conformance.case import StoreCase
from ackline.testing.conformance.driver import LEASE, QueueDriver, policy_of


class CountRules(StoreCase):
    """The counts are updated with each step, and equal the stored jobs after every step."""

    def test_counts_equal_the_stored_jobs_after_every_step(self, driver: QueueDriver) -> None:
        """Rule 1: every job in exactly one state."""

        def retire() -> None:
            driver.clock.advance(100_000.0)
            driver.store.prune(driver.queue, 100)

        steps: tuple[Callable[[], object], ...] = (
            lambda: driver.enqueue_all(map(str, range(12)), max_attempts=2, group="g"),
            lambda: driver.configure(group_limit=8),
            lambda: driver.claim_jobs(8),
            lambda: driver.complete(driver.get("0")),
            lambda: driver.fail(driver.get("1")),
            lambda: driver.apply_one(release(driver.get("2"), DEFAULTS)),
            lambda: driver.apply_one(snooze(driver.get("3"), 10.0, DEFAULTS)),
            lambda: driver.enqueue_all(["0", "new", "new"]),
            lambda: driver.apply_one(cancel("4", policy_of(driver.get("4")))),
            lambda: driver.apply_one(cancel("8", policy_of(driver.get("8")))),
            lambda: driver.apply_one(edit("9", Edit(delay=5.0))),
            lambda: driver.clock.advance(LEASE),
            driver.sweep,
            lambda: driver.claim_jobs(8),
            lambda: driver.fail(driver.get("5")),
            lambda: driver.apply_one(redrive("5")),
            lambda: driver.enqueue("8"),
            lambda: driver.store.promote(driver.queue, 100),
            lambda: driver.store.purge(driver.queue, Filter(ids=frozenset({"6", "9"})), 10),
            retire,
        )
        for step in steps:
            step()
            stored = Counter(job.state for job in driver.listed())
            assert driver.counts() == stored

    def test_a_duplicate_does_not_count(self, driver: QueueDriver) -> None:
        driver.enqueue("a")
        driver.enqueue("a")
        driver.enqueue_all("aa")

        assert driver.counts() == {State.QUEUED: 1}


class DescribeRules(StoreCase):
    """The queues of a store and their settings."""

    def test_queues_of_a_tenant_of_all_and_by_name(self, driver: QueueDriver) -> None:
        for tenant, name in (("b", "x"), ("a", "y"), ("a", "x")):
            driver.other_queue(name, tenant=tenant).enqueue("1")

        def keys(tenant: str | None, name: str | None = None) -> list[QueueKey]:
            return sorted(info.key for info in driver.store.describe(tenant, name))

        a_x, a_y, b_x = QueueKey("a", "x"), QueueKey("a", "y"), QueueKey("b", "x")
        assert keys("a") == [a_x, a_y]
        assert keys(None) == [a_x, a_y, b_x]
        assert keys("a", "x") == [a_x]
        assert keys(None, "x") == [a_x, b_x]
        assert keys("nobody") == []

    def test_settings_come_back_as_they_were_given(self, driver: QueueDriver) -> None:
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

        driver.store.configure(driver.queue, settings)

        [info] = driver.store.describe("default", "work")
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
        self, driver: QueueDriver, settings: QueueSettings
    ) -> None:
        """One process must not write settings that make all others fail."""
        driver.enqueue("a")
        kept = QueueSettings(ageing=7.0)
        driver.store.configure(driver.queue, kept)

        with pytest.raises(ConfigError, match="invalid settings"):
            driver.store.configure(driver.queue, settings)

        [info] = driver.store.describe("default")
        assert info.settings == kept
        assert driver.claim_ids() == ["a"]

    def test_settings_that_others_have_changed_are_not_overwritten(
        self, driver: QueueDriver
    ) -> None:
        """Two processes change settings at once: the second is refused, and must read again."""
        seen = QueueSettings()
        paused, limited = QueueSettings(paused=True), QueueSettings(group_limit=7)

        assert driver.store.configure(driver.queue, paused, expected=seen)
        entries = len(driver.journal())
        assert not driver.store.configure(driver.queue, limited, expected=seen)

        [info] = driver.store.describe("default", "work")
        assert info.settings == paused
        assert len(driver.journal()) == entries

    def test_reading_creates_no_queue(self, driver: QueueDriver) -> None:
        driver.find("a")
        driver.listed()
        driver.claim_jobs()
        driver.journal()
        driver.store.leases(driver.queue)
        driver.store.next_due([driver.queue])
        driver.store.promote(driver.queue, 1)

        assert driver.store.describe(None) == []

    def test_a_store_describes_itself(self, driver: QueueDriver) -> None:
        """Rule 1: its durability names the point at which a job is safe."""
        info = driver.store.info()

        assert info.name == driver.store.capabilities.name
        assert info.durability
        assert info.location
        assert info.now == driver.store.now() == driver.clock.now()
        assert driver.store.capabilities.batch_size > 0


class NextDueRules(StoreCase):
    """`next_due` returns when a queue needs maintenance next, and changes nothing."""

    def test_an_empty_queue_has_nothing_due(self, driver: QueueDriver) -> None:
        driver.enqueue("queued")
        driver.complete(driver.claim_one())

        assert driver.store.next_due([driver.queue]) == [NextDue(None, None)]

    def test_the_first_job_and_the_first_lease_count(self, driver: QueueDriver) -> None:
        now = driver.clock.now()
        driver.enqueue_all("abc")
        driver.enqueue("later", delay=70.0)
        driver.enqueue("sooner", delay=60.0)
        driver.claim_jobs(1, lease=50.0)
        driver.claim_jobs(1, lease=40.0)
        assert driver.store.next_due([driver.queue]) == [NextDue(now + 60.0, now + 40.0)]

        driver.fail(driver.claim_one(lease=1.0), delay=20.0)

        assert driver.store.next_due([driver.queue]) == [NextDue(now + 20.0, now + 40.0)]

    def test_overdue_work_counts_until_it_is_done(self, driver: QueueDriver) -> None:
        now = driver.clock.now()
        driver.enqueue_and_claim("leased")
        driver.enqueue("due", delay=10.0)
        driver.configure(paused=True)
        driver.clock.advance(100.0)
        assert driver.store.next_due([driver.queue]) == [NextDue(now + 10.0, now + LEASE)]
        assert driver.state("due") is State.SCHEDULED

        driver.store.promote(driver.queue, 1)
        driver.sweep()

        assert driver.store.next_due([driver.queue]) == [NextDue(None, None)]

    def test_leases_can_be_extended_without_a_worker(self, driver: QueueDriver) -> None:
        now = driver.clock.now()
        job = driver.enqueue_and_claim("a")
        driver.clock.advance(10.0)
        extensions = [LeaseExtension(job.id, job.token, LEASE), LeaseExtension("b", 1, LEASE)]

        reply = driver.store.heartbeat(driver.queue, None, extensions)

        assert reply.lost == [1]
        assert driver.get("a").deadline == now + 10.0 + LEASE
        assert driver.store.workers([driver.queue]) == [[]]

    def test_an_extended_lease_counts_with_its_new_end(self, driver: QueueDriver) -> None:
        now = driver.clock.now()
        job = driver.enqueue_and_claim("a")
        driver.clock.advance(10.0)

        driver.heartbeat(job)

        assert driver.store.next_due([driver.queue]) == [NextDue(None, now + 10.0 + LEASE)]

    def test_each_queue_has_its_own_result_in_the_order_of_the_request(
        self, driver: QueueDriver
    ) -> None:
        now, other, missing = (
            driver.clock.now(),
            driver.other_queue("other"),
            driver.other_queue("missing"),
        )
        driver.enqueue("a", delay=10.0)
        other.enqueue("b", delay=20.0)

        requested = [other.queue, missing.queue, driver.queue]
        next_due = [due.job_at for due in driver.store.next_due(requested)]

        assert next_due == [now + 20.0, None, now + 10.0]
        assert driver.store.next_due([]) == []


class PageRules(StoreCase):
    """Every job is listed once, however small the pages are."""

    def test_all_pages_together_are_complete(self, driver: QueueDriver) -> None:
        driver.enqueue_all(map(str, range(7)), delay=5.0)
        driver.enqueue_all("abcdefg", priority=3)
        driver.claim_jobs(2)

        whole = driver.listed()

        assert len(whole) == 14
        for size in (1, 2, 3, 7, 14):
            assert driver.listed(page=size) == whole

    def test_states_come_in_their_order_and_jobs_by_their_position(
        self, driver: QueueDriver
    ) -> None:
        driver.enqueue("low", priority=1)
        driver.enqueue("high", priority=9)
        driver.enqueue("later", delay=9.0)
        driver.enqueue("sooner", delay=3.0)

        assert [job.id for job in driver.listed()] == ["sooner", "later", "high", "low"]

    def test_jobs_that_come_in_between_pages_do_not_shift_the_others(
        self, driver: QueueDriver
    ) -> None:
        driver.enqueue_all("abcdef")
        first = driver.store.page(driver.queue, Filter(), None, 3)
        driver.enqueue_all("uvw", priority=9)
        driver.store.purge(driver.queue, Filter(ids=frozenset("a")), 1)

        second = driver.store.page(driver.queue, Filter(), first.cursor, 100)

        assert [job.id for job in first.jobs + second.jobs] == list("abcdef")

    def test_each_job_comes_once_though_others_change_their_state(
        self, driver: QueueDriver
    ) -> None:
        driver.enqueue_all("abcdefgh")
        first, second = driver.claim_jobs(2)
        driver.clock.advance(5.0)  # so that the steps above do not count as changes
        pieces = snapshot_jobs(driver.store, driver.queue, Filter(), size=2)
        found = next(pieces)  # leased jobs come behind those that are queued
        driver.apply(release(first, policy_of(first)))
        driver.complete(second)
        third = driver.claim_one()
        found += next(pieces)
        driver.fail(third, delay=60.0)
        driver.claim_jobs(2)

        found += [job for piece in pieces for job in piece]

        assert sorted(job.id for job in found) == list("abcdefgh")

    def test_each_job_comes_once_where_no_journal_is_kept(self, driver: QueueDriver) -> None:
        driver.store.configure(driver.queue, QueueSettings(max_journal=0))
        driver.enqueue_all("abcdef")
        [taken] = driver.claim_jobs(1)
        driver.clock.advance(5.0)
        pieces = snapshot_jobs(driver.store, driver.queue, Filter(), size=2)
        found = next(pieces)
        driver.apply(release(taken, policy_of(taken)))
        driver.store.prune(driver.queue, 100)

        found += [job for piece in pieces for job in piece]

        assert sorted(job.id for job in found) == list("abcdef")

    def test_heartbeats_between_pages_do_not_shift_leased_jobs(self, driver: QueueDriver) -> None:
        driver.enqueue_all("abcdef")
        jobs = driver.claim_jobs(6)
        first = driver.store.page(driver.queue, Filter(), None, 3)
        driver.clock.advance(1.0)
        driver.heartbeat(jobs[0], jobs[5])

        second = driver.store.page(driver.queue, Filter(), first.cursor, 3)

        assert [job.id for job in first.jobs + second.jobs] == list("abcdef")

    def test_newest_first_reverses_each_state(self, driver: QueueDriver) -> None:
        driver.enqueue_all(map(str, range(5)), delay=5.0)
        driver.enqueue_all("abcdef", priority=3)
        driver.enqueue_all("ghi", priority=7, kind="other")
        for job in driver.claim_jobs(3):
            driver.complete(job)
            driver.clock.advance(1.0)
        driver.claim_jobs(3)

        whole = driver.listed()
        wanted = [
            job for state in State for job in reversed([j for j in whole if j.state is state])
        ]

        assert len({job.state for job in whole}) == 4
        for size in (1, 2, 3, 7, 14):
            assert driver.listed(page=size, newest_first=True) == wanted
        every_second = Filter(ids=frozenset(job.id for job in wanted[::2]))
        assert driver.listed(every_second, page=2, newest_first=True) == wanted[::2]

    def test_jobs_that_end_between_pages_do_not_shift_older_ones(self, driver: QueueDriver) -> None:
        driver.enqueue_all("abcdef")
        jobs = driver.claim_jobs(6)
        for job in jobs[:5]:
            driver.complete(job)
            driver.clock.advance(1.0)
        done = Filter(states=frozenset({State.COMPLETED}))
        first = driver.store.page(driver.queue, done, None, 2, newest_first=True)
        driver.complete(jobs[5])

        second = driver.store.page(driver.queue, done, first.cursor, 9, newest_first=True)

        assert [job.id for job in first.jobs + second.jobs] == list("edcba")

    def test_a_cursor_of_the_other_order_is_refused(self, driver: QueueDriver) -> None:
        driver.enqueue_all("abc")
        cursors = [
            driver.store.page(driver.queue, Filter(), None, 1, newest_first).cursor
            for newest_first in (False, True)
        ]

        for cursor, newest_first in zip(cursors, (True, False), strict=True):
            with pytest.raises((msgspec.ValidationError, AcklineError)):
                driver.store.page(driver.queue, Filter(), cursor, 1, newest_first)

    def test_the_last_page_has_no_cursor(self, driver: QueueDriver) -> None:
        driver.enqueue_all("abc")

        assert driver.store.page(driver.queue, Filter(), None, 3).cursor is None
        assert driver.store.page(driver.queue, Filter(), None, 2).cursor is not None

    def test_each_filter_selects(self, driver: QueueDriver) -> None:
        driver.enqueue("a", kind="mail", payload=b'"x needle y"')
        driver.clock.advance(10.0)
        middle = driver.clock.now()
        driver.enqueue("b", kind="image", payload="süß".encode())
        driver.clock.advance(10.0)
        driver.enqueue("c", kind="mail", delay=5.0)

        def ids(which: Filter) -> str:
            return "".join(sorted(job.id for job in driver.listed(which, page=1)))

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

    def test_filters_by_tags_find_jobs_that_have_all_of_them(self, driver: QueueDriver) -> None:
        """A tag is compared as a whole, and only with tags; also when pages are small."""
        tags_of_jobs = {"a": ("eu", "vip"), "b": ("vip",), "c": ("vips",), "d": ()}
        for id, tags in tags_of_jobs.items():
            driver.enqueue(id, tags=tags, headers={"vip": "vip"})
        driver.enqueue("e")
        driver.enqueue("later", tags=("vip",), delay=60.0)
        (claimed,) = driver.claim(1).jobs

        def ids(*tags: str) -> list[str]:
            which = Filter(tags=frozenset(tags))
            return sorted(job.id for job in driver.listed(which, page=1))

        assert (claimed.id, claimed.options.tags) == ("a", ("eu", "vip"))
        assert ids("vip") == ["a", "b", "later"]
        assert ids("vip", "eu") == ["a"]
        assert ids("vi") == ids("none") == []
        assert len(ids()) == 6
        (found,) = driver.listed(Filter(tags=frozenset({"eu"}), ids=frozenset("ab")))
        assert found.options.tags == ("eu", "vip")
        assert driver.store.purge(driver.queue, Filter(tags=frozenset({"vip"})), 10) == 3
        assert sorted(job.id for job in driver.listed(Filter())) == ["c", "d", "e"]

    def test_a_text_is_taken_literally(self, driver: QueueDriver) -> None:
        """It is not a pattern, and needs no escaping."""
        driver.enqueue("a", payload=b"100% _of_ 'it'")
        driver.enqueue("b", payload=b"100 of it")

        for text in ("100%", "_of_", "'it'"):
            assert [job.id for job in driver.listed(Filter(text=text))] == ["a"]
        assert driver.listed(Filter(text="1%t")) == []

    def test_get_returns_jobs_in_the_order_of_the_ids(self, driver: QueueDriver) -> None:
        driver.enqueue_all("ab")

        found = driver.store.get(driver.queue, ["b", "x", "a", "b"])

        assert [job.id if job else None for job in found] == ["b", None, "a", "b"]
        assert driver.store.get(driver.queue, []) == []

    def test_get_of_very_many_ids(self, driver: QueueDriver) -> None:
        driver.enqueue_all(map(str, range(0, 3000, 3)))

        found = driver.store.get(driver.queue, [str(n) for n in range(3000)])

        assert [job is not None for job in found] == [n % 3 == 0 for n in range(3000)]
