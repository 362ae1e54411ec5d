"""The journal: every step, in order, once."""

from __future__ import annotations

import threading

import pytest

from ackline.core.config import DEFAULTS
from ackline.core.events import Act, Event
from ackline.core.job import State
from ackline.core.lifecycle import (
    Edit,
    cancel,
    complete,
    edit,
    extend,
    move,
    progress,
    redrive,
    release,
    request_cancel,
    snooze,
)
from ackline.stores.contract import Filter
from ackline.testing.conformance.case import StoreCase
from ackline.testing.conformance.driver import LEASE, NO_LIMIT, QueueDriver, policy_of
from ackline.testing.journal_checker import check_journal

_S = State


class JournalRules(StoreCase):
    """Rule 14: every transition writes its entry in the same atomic step."""

    def test_every_act_has_its_entry(self, driver: QueueDriver) -> None:
        driver.enqueue("a", max_attempts=2, delay=5.0)
        driver.clock.advance(5.0)
        job = driver.claim_one()
        driver.apply(extend(job, LEASE), progress(job, b"1"))
        driver.apply_one(release(job, policy_of(job)))
        driver.apply_one(snooze(driver.claim_one(), 5.0, DEFAULTS))
        driver.apply_one(edit("a", Edit(delay=0.0)))
        driver.fail(driver.claim_one(), delay=0.0)
        driver.claim_one()
        driver.clock.advance(LEASE)
        driver.sweep()
        driver.apply_one(redrive("a"))
        job = driver.claim_one()
        driver.apply_one(request_cancel("a"))
        driver.complete(job)
        driver.store.purge(driver.queue, Filter(), 1)

        assert driver.steps("a") == [
            (Act.ENQUEUE, None, _S.SCHEDULED),
            (Act.PROMOTE, _S.SCHEDULED, _S.QUEUED),
            (Act.CLAIM, _S.QUEUED, _S.PROCESSING),
            (Act.EXTEND, _S.PROCESSING, _S.PROCESSING),
            (Act.PROGRESS, _S.PROCESSING, _S.PROCESSING),
            (Act.RELEASE, _S.PROCESSING, _S.QUEUED),
            (Act.CLAIM, _S.QUEUED, _S.PROCESSING),
            (Act.SNOOZE, _S.PROCESSING, _S.SCHEDULED),
            (Act.EDIT, _S.SCHEDULED, _S.SCHEDULED),
            (Act.PROMOTE, _S.SCHEDULED, _S.QUEUED),
            (Act.CLAIM, _S.QUEUED, _S.PROCESSING),
            (Act.FAIL, _S.PROCESSING, _S.FAILING),
            (Act.PROMOTE, _S.FAILING, _S.QUEUED),
            (Act.CLAIM, _S.QUEUED, _S.PROCESSING),
            (Act.EXPIRE, _S.PROCESSING, _S.FAILED),
            (Act.REDRIVE, _S.FAILED, _S.QUEUED),
            (Act.CLAIM, _S.QUEUED, _S.PROCESSING),
            (Act.REQUEST_CANCEL, _S.PROCESSING, _S.PROCESSING),
            (Act.COMPLETE, _S.PROCESSING, _S.COMPLETED),
            (Act.PURGE, _S.COMPLETED, None),
        ]
        check_journal(driver.journal())

    def test_an_entry_records_who_what_and_when(self, driver: QueueDriver) -> None:
        job = driver.enqueue_and_claim("a", kind="mail")
        driver.clock.advance(2.0)
        driver.fail(job)

        claimed, failed = driver.journal()[-2:]

        assert (claimed.attempt, claimed.token, claimed.worker) == (1, job.token, "w1")
        assert (failed.attempt, failed.token, failed.worker) == (1, job.token, "w1")
        assert (failed.kind, failed.queue, failed.at) == ("mail", driver.queue, driver.clock.now())
        assert failed.note == "ValueError: boom"

    def test_a_priority_is_recorded_when_a_job_gets_it(self, driver: QueueDriver) -> None:
        """So that readers of the journal need not read the job."""
        other = driver.other_queue("other")
        driver.dead_letter("a", priority=7)
        driver.enqueue_all("bc", priority=2)
        driver.apply_one(edit("b", Edit(payload=b"2")))
        driver.apply_one(edit("c", Edit(priority=9)))
        driver.apply_one(redrive("a"))
        driver.apply_one(move("a", other.queue))

        recorded = [(event.act, event.id, event.priority) for event in driver.journal()]

        assert [entry for entry in recorded if entry[2] is not None] == [
            (Act.ENQUEUE, "a", 7),
            (Act.ENQUEUE, "b", 2),
            (Act.ENQUEUE, "c", 2),
            (Act.EDIT, "b", 2),
            (Act.EDIT, "c", 9),
            (Act.REDRIVE, "a", 7),
        ]
        assert [(event.act, event.priority) for event in other.journal()] == [(Act.MOVE, 7)]

    def test_the_end_of_a_job_records_its_callback_url(self, driver: QueueDriver) -> None:
        """A later reader may find the job gone, or enqueued again."""
        driver.enqueue_all("ab", callback_url="http://done")
        driver.enqueue_all("cd")
        jobs = driver.claim_jobs(4)
        driver.apply(*(complete(job, b"1", policy_of(job)) for job in jobs[:3]))
        driver.dead_letter("e", callback_url="http://buried")
        driver.enqueue("e", callback_url="http://second")
        driver.apply_one(cancel("e", policy_of(driver.get("e"))))
        driver.enqueue("e")
        driver.apply_one(cancel("e", policy_of(driver.get("e"))))
        driver.store.purge(driver.queue, Filter(), NO_LIMIT)

        recorded = [(event.act, event.id, event.callback_url) for event in driver.journal()]

        assert [entry for entry in recorded if entry[2] is not None] == [
            (Act.COMPLETE, "a", "http://done"),
            (Act.COMPLETE, "b", "http://done"),
            (Act.FAIL, "e", "http://buried"),
            (Act.CANCEL, "e", "http://second"),
        ]

    def test_an_attempt_that_is_not_the_last_has_no_callback(self, driver: QueueDriver) -> None:
        driver.enqueue("a", callback_url="http://done", max_attempts=3)
        driver.fail(driver.claim_one(), delay=0.0)
        driver.apply_one(release(driver.claim_one(), DEFAULTS))
        driver.apply_one(snooze(driver.claim_one(), 0.0, DEFAULTS))
        driver.claim_one()
        driver.clock.advance(LEASE)
        driver.sweep()
        assert not [event for event in driver.journal() if event.callback_url is not None]

        job = driver.claim_one()
        driver.apply_one(request_cancel("a"))
        driver.apply_one(release(job, policy_of(job)))

        assert driver.state("a") is State.CANCELLED
        assert driver.journal()[-1].callback_url == "http://done"

    def test_the_expiry_of_the_last_attempt_has_a_callback(self, driver: QueueDriver) -> None:
        driver.enqueue_and_claim("a", callback_url="http://done", max_attempts=1)
        driver.clock.advance(LEASE)
        driver.sweep()

        [ended] = [event for event in driver.journal() if event.callback_url is not None]

        assert (ended.act, ended.to, ended.callback_url) == (Act.EXPIRE, _S.FAILED, "http://done")

    def test_each_entry_of_a_batch_records_who_asked_for_it(self, driver: QueueDriver) -> None:
        driver.enqueue_all("abcd")
        policy = policy_of(driver.get("a"))

        driver.apply(
            cancel("a", policy, by="ann"),
            cancel("b", policy),
            cancel("c", policy, by="bob"),
            cancel("d", policy, by="bob"),
        )

        assert [(event.id, event.by) for event in driver.journal()[-4:]] == [
            ("a", "ann"),
            ("b", ""),
            ("c", "bob"),
            ("d", "bob"),
        ]

    def test_the_entry_of_a_replacement_records_the_old_state(self, driver: QueueDriver) -> None:
        driver.dead_letter("a")
        driver.enqueue("a")

        assert driver.steps("a")[-1] == (Act.ENQUEUE, State.FAILED, State.QUEUED)

    def test_refused_steps_leave_no_entry(self, driver: QueueDriver) -> None:
        driver.enqueue("a")
        before = driver.journal()

        driver.enqueue("a")
        driver.apply(redrive("a"), redrive("unknown"), request_cancel("a"))

        assert driver.journal() == before

    def test_settings_and_pauses_are_recorded(self, driver: QueueDriver) -> None:
        for settings in ({"paused": True}, {"paused": False}, {"max_jobs": 9}):
            driver.configure(**settings)

        assert [(e.act, e.id) for e in driver.journal()] == [
            (Act.PAUSE, ""),
            (Act.RESUME, ""),
            (Act.CONFIGURE, ""),
        ]

    def test_a_pause_with_other_settings_is_recorded_as_new_settings(
        self, driver: QueueDriver
    ) -> None:
        """A reader that knows only the current settings must see that there were others."""
        driver.configure(paused=True, max_jobs=9)
        driver.configure(paused=False, max_jobs=8)

        assert [event.act for event in driver.journal()] == [Act.CONFIGURE, Act.CONFIGURE]

    def test_a_terminal_state_is_recorded_once(self, driver: QueueDriver) -> None:
        """Rule 3: one terminal event."""
        job = driver.enqueue_and_claim("a")
        for _ in range(3):
            driver.complete(job)
        driver.apply_one(cancel("a", policy_of(job)))

        assert [to for _, _, to in driver.steps("a")].count(State.COMPLETED) == 1


class FollowRules(StoreCase):
    """Rule 14: readers see every entry, in order, once."""

    @pytest.mark.parametrize("size", [1, 2, 3, 100])
    def test_a_reader_sees_every_entry_once_and_in_order(
        self, driver: QueueDriver, size: int
    ) -> None:
        driver.enqueue_all("abc")
        driver.claim_jobs(2)
        driver.enqueue_all("defgh")

        seen: list[Event] = []
        cursor: str | None = None
        while batch := driver.store.events(driver.queue, cursor, size):
            assert len(batch) <= size
            seen += batch
            cursor = batch[-1].cursor

        assert seen == driver.journal()
        assert [event.id for event in seen] == list("abcabdefgh")

    def test_a_reader_at_the_end_sees_what_comes_next(self, driver: QueueDriver) -> None:
        driver.enqueue_all("ab")
        cursor = driver.journal()[-1].cursor
        assert driver.store.events(driver.queue, cursor, 10) == []

        driver.enqueue("c")

        assert [event.id for event in driver.store.events(driver.queue, cursor, 10)] == ["c"]

    def test_a_reader_can_start_at_the_end(self, driver: QueueDriver) -> None:
        """`info` returns the cursor after the last event of all queues."""
        driver.enqueue_all("ab")
        cursor = driver.store.info().cursor
        assert driver.store.events(None, cursor, 10) == []

        driver.enqueue_all("cd")

        assert [event.id for event in driver.store.events(None, cursor, 1)] == ["c"]
        assert [event.id for event in driver.store.events(driver.queue, cursor, 10)] == ["c", "d"]

    def test_a_limit_of_zero_reads_nothing(self, driver: QueueDriver) -> None:
        driver.enqueue_all("ab")

        assert driver.store.events(driver.queue, None, 0) == []

    def test_a_reader_of_all_queues_sees_all_in_order(self, driver: QueueDriver) -> None:
        one, two = driver.other_queue("one"), driver.other_queue("two", tenant="acme")
        one.enqueue("a")
        two.enqueue("b")
        one.enqueue("c")

        seen: list[Event] = []
        cursor: str | None = None
        while batch := driver.store.events(None, cursor, 1):
            seen += batch
            cursor = batch[-1].cursor

        assert [(event.queue, event.id) for event in seen] == [
            (one.queue, "a"),
            (two.queue, "b"),
            (one.queue, "c"),
        ]

    def test_a_reader_of_a_tenant_sees_all_its_queues_in_order(self, driver: QueueDriver) -> None:
        one, two, away = (
            driver.other_queue("one"),
            driver.other_queue("two"),
            driver.other_queue("one", "acme"),
        )
        expected = []
        for n in range(60):
            for queue, count in ((one, 2), (away, 25), (two, 1)) if n % 20 == 0 else ((away, 1),):
                # What happens in two queues at the same moment has no order.
                driver.clock.advance(0.001)
                queue.enqueue_all(f"{n}-{m}" for m in range(count))
                if queue is not away:
                    expected += [(queue.queue, f"{n}-{m}") for m in range(count)]

        for size in (1, 2, 100):
            seen: list[Event] = []
            cursor: str | None = None
            while batch := driver.store.events(None, cursor, size, tenant=one.queue.tenant):
                assert len(batch) <= size
                seen += batch
                cursor = batch[-1].cursor
            assert [(event.queue, event.id) for event in seen] == expected

    def test_a_reader_of_a_tenant_with_a_journal_of_its_own(self, driver: QueueDriver) -> None:
        """A tenant that writes most of the journal is read as completely as any other."""
        for n in range(150):
            driver.clock.advance(0.001)
            driver.other_queue(f"q{n % 7}").enqueue(f"{n}")
        driver.other_queue("q0", tenant="acme").enqueue("foreign")

        seen = driver.store.events(None, None, NO_LIMIT, tenant=driver.queue.tenant)

        assert [event.id for event in seen] == [f"{n}" for n in range(150)]
        assert driver.store.events(None, seen[-1].cursor, 5, tenant=driver.queue.tenant) == []
        assert driver.store.events(None, None, 5, tenant="nobody") == []

    def test_a_reader_of_one_queue_sees_no_other(self, driver: QueueDriver) -> None:
        driver.enqueue("a")
        driver.other_queue("other").enqueue("b")
        driver.other_queue("work", tenant="acme").enqueue("c")

        assert [event.id for event in driver.journal()] == ["a"]

    def test_no_reader_skips_a_late_committer(self, driver: QueueDriver) -> None:
        """A reader that follows the journal while many write misses nothing."""
        writers, each = 6, 25
        done = threading.Event()
        seen: list[Event] = []

        def read() -> None:
            cursor: str | None = None
            while True:
                last = done.is_set()
                batch = driver.store.events(None, cursor, 50)
                seen.extend(batch)
                if batch:
                    cursor = batch[-1].cursor
                elif last:
                    return

        def write(writer: int) -> None:
            queue = driver.other_queue(f"queue {writer % 2}")
            for n in range(each):
                queue.enqueue(f"{writer}-{n}")

        reader = threading.Thread(target=read)
        threads = [threading.Thread(target=write, args=(n,)) for n in range(writers)]
        for thread in (reader, *threads):
            thread.start()
        for thread in threads:
            thread.join()
        done.set()
        reader.join()

        assert seen == driver.store.events(None, None, NO_LIMIT)
        assert len({event.id for event in seen}) == len(seen) == writers * each
