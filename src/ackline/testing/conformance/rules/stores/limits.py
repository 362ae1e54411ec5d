"""Limits: a call that requests more than a store returns at once gets less, never an error."""

from __future__ import annotations

import pytest

from ackline.core.job import State
from ackline.core.lifecycle import bury, complete, progress, redrive, release
from ackline.stores.contract import ClaimResult, Filter, find_each_job, read_each_key
from ackline.testing.conformance.case import StoreCase
from ackline.testing.conformance.driver import ALL_JOBS, QueueDriver, failure, policy_of

VERY_MANY = 1_000_000
"""More than any store returns at once."""

LARGE = b"x" * 10_000
NEARLY_THREE = 25_000
"""Bytes that the third large payload exceeds, whatever else a store keeps with it."""


class LimitRules(StoreCase):
    """The same call works on every store: a page may be shorter, and the next one continues."""

    def test_a_claim_may_request_very_many(self, driver: QueueDriver) -> None:
        driver.enqueue_all("abc")

        assert driver.claim_ids(VERY_MANY) == ["a", "b", "c"]

    def test_reading_leases_may_request_very_many(self, driver: QueueDriver) -> None:
        driver.enqueue_all("abcde")
        mine, others = driver.claim_jobs(3, worker="w1"), driver.claim_jobs(2, worker="w2")

        leased = driver.store.leases(driver.queue, worker="w1", limit=VERY_MANY)
        assert leased == [job.without_data() for job in mine]
        leased = driver.store.leases(driver.queue, worker="w2", limit=VERY_MANY)
        assert leased == [job.without_data() for job in others]
        assert driver.store.leases(driver.queue, limit=VERY_MANY) == []

    def test_a_page_may_request_very_many(self, driver: QueueDriver) -> None:
        driver.enqueue_all("abc")

        assert [job.id for job in driver.listed(page=VERY_MANY)] == ["a", "b", "c"]

    def test_reading_the_journal_may_request_very_many(self, driver: QueueDriver) -> None:
        driver.enqueue_all("abc")

        for queue in (driver.queue, None):
            events = driver.store.events(queue, None, VERY_MANY)
            assert [event.id for event in events] == ["a", "b", "c"]

    def test_maintenance_may_request_very_many(self, driver: QueueDriver) -> None:
        driver.enqueue_all("abc", delay=5.0)
        driver.clock.advance(10.0)

        assert driver.store.promote(driver.queue, VERY_MANY) == 3
        assert driver.store.purge(driver.queue, Filter(), VERY_MANY) == 3
        assert driver.store.prune(driver.queue, VERY_MANY) == 0

    def test_reading_keys_may_request_very_many(self, driver: QueueDriver) -> None:
        for name in "abc":
            driver.write("k", name, value=b"1")

        found = driver.store.read_keys("default", ("k",), VERY_MANY)
        assert [entry.key for entry in found] == [("k", "a"), ("k", "b"), ("k", "c")]

    def test_no_queue_may_be_listened_to(self, driver: QueueDriver) -> None:
        """A reader of all queues of a tenant may listen before the first queue exists."""
        with driver.store.listen([], "changes") as listener:
            listener.wait(0.0)


class ByteRules(StoreCase):
    """A page ends with the item with which it reaches `max_bytes`, and the next one continues."""

    def test_a_page_ends_when_its_bytes_are_reached(self, driver: QueueDriver) -> None:
        driver.enqueue_all("abcdefg", payload=LARGE)

        assert _pages(driver) == ["abc", "def", "g"]
        assert _pages(driver, newest_first=True) == ["gfe", "dcb", "a"]

    def test_a_page_of_named_jobs_ends_when_its_bytes_are_reached(
        self, driver: QueueDriver
    ) -> None:
        driver.enqueue_all("abcdefg", payload=LARGE)

        which = Filter(ids=frozenset("abdfg"), text="x")
        assert _pages(driver, which) == ["abd", "fg"]

    def test_only_jobs_that_match_count(self, driver: QueueDriver) -> None:
        for id in "aAbBcCdD":
            driver.enqueue(id, payload=LARGE, kind="mail" if id.islower() else "other")

        assert _pages(driver, Filter(kinds=frozenset({"mail"}))) == ["abc", "d"]

    @pytest.mark.parametrize("state", [State.SCHEDULED, State.PROCESSING, State.COMPLETED])
    def test_the_bytes_apply_in_every_state(self, driver: QueueDriver, state: State) -> None:
        driver.enqueue_all("abcd", payload=LARGE, delay=60.0 if state is State.SCHEDULED else 0.0)
        if state is not State.SCHEDULED:
            jobs = driver.claim_jobs(4)
        if state is State.COMPLETED:
            driver.apply(*(complete(job, None, policy_of(job)) for job in jobs))

        assert _pages(driver, Filter(states=frozenset({state}))) == ["abc", "d"]

    def test_progress_counts(self, driver: QueueDriver) -> None:
        driver.enqueue_all("abcd")
        driver.apply(*(progress(job, LARGE) for job in driver.claim_jobs(4)))

        assert _pages(driver) == ["abc", "d"]
        assert len(driver.store.get(driver.queue, list("abcd"), NEARLY_THREE)) == 3

    def test_results_count(self, driver: QueueDriver) -> None:
        driver.enqueue_all("abcd")
        driver.apply(*(complete(job, LARGE, policy_of(job)) for job in driver.claim_jobs(4)))

        assert _pages(driver) == ["abc", "d"]
        assert len(driver.store.get(driver.queue, list("abcd"), NEARLY_THREE)) == 3

    def test_ended_attempts_count(self, driver: QueueDriver) -> None:
        driver.enqueue_all("abcd", max_attempts=1)
        jobs = driver.claim_jobs(4)
        error = LARGE.decode()
        driver.apply(*(bury(job, failure(job, error), policy_of(job)) for job in jobs))

        assert _pages(driver) == ["abc", "d"]
        assert len(driver.store.get(driver.queue, list("abcd"), NEARLY_THREE)) == 3

    def test_ended_attempts_count_in_a_job_that_starts_afresh(self, driver: QueueDriver) -> None:
        driver.enqueue_all("abcd")
        error = LARGE.decode()
        driver.apply(
            *(bury(job, failure(job, error), policy_of(job)) for job in driver.claim_jobs(4))
        )
        driver.apply(*(redrive(id) for id in "abcd"))

        assert _pages(driver) == ["abc", "d"]
        assert len(driver.store.get(driver.queue, list("abcd"), NEARLY_THREE)) == 3

    def test_headers_count(self, driver: QueueDriver) -> None:
        driver.enqueue_all("abcd", headers={"note": LARGE.decode()})

        assert _pages(driver) == ["abc", "d"]
        assert _ids(driver.claim(9, max_bytes=NEARLY_THREE)) == "abc"

    @pytest.mark.parametrize("most", [1, -1])
    def test_a_job_larger_than_all_bytes_comes_alone(self, driver: QueueDriver, most: int) -> None:
        driver.enqueue_all("ab", payload=LARGE)
        for name in "ab":
            driver.write("k", name, value=LARGE)

        page = driver.store.page(driver.queue, Filter(), None, 9, max_bytes=most)
        assert [job.id for job in page.jobs] == ["a"]
        assert page.jobs[0].payload == LARGE
        assert len(driver.store.read_keys("default", ("k",), 9, max_bytes=most)) == 1
        assert len(driver.store.get(driver.queue, ["a", "b"], most)) == 1
        assert _ids(driver.claim(9, max_bytes=most)) == "a"

    def test_named_jobs_are_returned_up_to_these_bytes(self, driver: QueueDriver) -> None:
        driver.enqueue_all("abcdefg", payload=LARGE)
        ids = ["g", "none", "a", "a", "b", "none", "c", "d", "gone"]

        found = driver.store.get(driver.queue, ids, NEARLY_THREE)
        everything = driver.store.get(driver.queue, ids)

        assert len(found) < len(ids)
        assert found == everything[: len(found)]
        assert sum(job is not None for job in found) in (2, 3, 4)
        assert list(find_each_job(driver.store, driver.queue, ids, NEARLY_THREE)) == everything
        assert [job and job.id for job in everything] == [
            id if id in "abcdefg" else None for id in ids
        ]

    def test_keys_end_when_their_bytes_are_reached(self, driver: QueueDriver) -> None:
        for name in "abcdefg":
            driver.write("k", name, value=LARGE)
        read = driver.store.read_keys

        found = read("default", ("k",), VERY_MANY, max_bytes=NEARLY_THREE)
        assert [entry.key for entry in found] == [("k", "a"), ("k", "b"), ("k", "c")]
        for limit in (VERY_MANY, 7, 4, 3, 0):
            few = read_each_key(driver.store, "default", ("k",), limit, max_bytes=NEARLY_THREE)
            assert list(few) == read("default", ("k",), limit)

    def test_a_claim_leases_no_more_than_these_bytes(self, driver: QueueDriver) -> None:
        driver.enqueue_all("abcdefg", payload=LARGE)

        first = driver.claim(VERY_MANY, max_bytes=NEARLY_THREE)
        assert (_ids(first), first.may_have_more) == ("abc", True)
        assert driver.counts()[State.PROCESSING] == 3
        assert [driver.get(id).attempts for id in "abcd"] == [1, 1, 1, 0]

        rest = driver.claim(VERY_MANY, max_bytes=10 * NEARLY_THREE)
        assert (_ids(rest), rest.may_have_more) == ("defg", False)

    def test_small_jobs_are_claimed_up_to_the_limit(self, driver: QueueDriver) -> None:
        driver.enqueue_all("abcdefg")

        claimed = driver.claim(5, max_bytes=NEARLY_THREE)
        assert (_ids(claimed), claimed.may_have_more) == ("abcde", False)

    def test_jobs_of_several_kinds_are_claimed_in_order(self, driver: QueueDriver) -> None:
        for index, id in enumerate("abcdefghij"):
            driver.enqueue(id, payload=LARGE, kind="mail" if index % 3 else "other")

        claims = [driver.claim(VERY_MANY, max_bytes=NEARLY_THREE) for _ in range(4)]
        assert [_ids(claimed) for claimed in claims] == ["abc", "def", "ghi", "j"]

    def test_jobs_of_full_groups_do_not_count(self, driver: QueueDriver) -> None:
        driver.configure(group_limit=1)
        for id in "abcdef":
            driver.enqueue(id, payload=LARGE, group="same" if id in "abde" else None)

        claimed = driver.claim(VERY_MANY, max_bytes=NEARLY_THREE)
        assert _ids(claimed) == "acf"

    def test_released_jobs_are_claimed_up_to_these_bytes(self, driver: QueueDriver) -> None:
        driver.enqueue_all("abcd", payload=LARGE)
        driver.apply(*(release(job, policy_of(job)) for job in driver.claim_jobs(4)))

        assert _ids(driver.claim(9, max_bytes=NEARLY_THREE)) == "abc"
        assert _ids(driver.claim(9, max_bytes=NEARLY_THREE)) == "d"


def _ids(claimed: ClaimResult) -> str:
    return "".join(job.id for job in claimed.jobs)


def _pages(driver: QueueDriver, which: Filter = ALL_JOBS, newest_first: bool = False) -> list[str]:
    """The ids on each page; an empty one may follow the last."""
    pages, cursor = list[str](), None
    while True:
        page = driver.store.page(
            driver.queue, which, cursor, VERY_MANY, newest_first, max_bytes=NEARLY_THREE
        )
        if page.jobs:
            pages.append("".join(job.id for job in page.jobs))
        if page.cursor is None:
            return pages
        cursor = page.cursor
