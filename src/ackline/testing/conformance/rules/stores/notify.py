"""Wake-ups: subscribe first, then read."""

from __future__ import annotations

import threading
import time
from typing import Literal, get_args

import pytest

from ackline.core.lifecycle import cancel, move, release, request_cancel
from ackline.stores.contract import Filter, Listener, Subject, Subscription, Topic
from ackline.testing.conformance.case import StoreCase
from ackline.testing.conformance.driver import QueueDriver, policy_of

Readying = Literal["release", "expire", "resume", "promote", "schedule"]

SOON = 5.0
"""Seconds; far more than a wake-up takes, so only a missed one waits this long."""


def quiet(listener: Listener) -> bool:
    """Whether a listener is no longer woken after its pending wake-ups."""
    return any(not listener.wait(0.01) for _ in range(20))


def is_notified(subscription: Subscription, *subjects: Subject) -> bool:
    """Whether a subscription soon reports changes of all these subjects."""
    missing, until = set(subjects), time.monotonic() + SOON
    while missing and time.monotonic() < until:
        changed = subscription.wait(until - time.monotonic())
        missing = set() if changed is None else missing.difference(changed)
    return not missing


def silent(subscription: Subscription) -> bool:
    """Whether a subscription has nothing more to report."""
    return any(not _notifies(subscription) for _ in range(20))


def _notifies(subscription: Subscription) -> bool:
    changed = subscription.wait(0.01)
    return changed is None or bool(changed)


class SubscribeRules(StoreCase):
    """One subscription covers many subjects, and reports which of them have changed."""

    def test_what_was_added_is_reported_once(self, driver: QueueDriver) -> None:
        with driver.store.subscribe() as subscription:
            subscription.add([(driver.queue, "ready")])

            assert is_notified(subscription, (driver.queue, "ready"))
            assert silent(subscription)

    def test_later_changes_are_not_missed(self, driver: QueueDriver) -> None:
        with driver.store.subscribe() as subscription:
            subscription.add([(driver.queue, "ready"), (driver.queue, "changes")])
            assert is_notified(subscription, (driver.queue, "ready"), (driver.queue, "changes"))
            assert silent(subscription)
            driver.enqueue("a")

            assert is_notified(subscription, (driver.queue, "ready"), (driver.queue, "changes"))

    def test_it_says_which_subject_has_changed(self, driver: QueueDriver) -> None:
        queues = [driver.other_queue(f"queue {n}", tenant=f"tenant {n % 3}") for n in range(30)]
        with driver.store.subscribe() as subscription:
            subscription.add((one.queue, "ready") for one in queues)
            assert is_notified(subscription, *((one.queue, "ready") for one in queues))
            assert silent(subscription)
            queues[7].enqueue("a")

            changed = subscription.wait(SOON)
            assert changed is None or set(changed) == {(queues[7].queue, "ready")}

    def test_subjects_can_be_added_while_it_waits(self, driver: QueueDriver) -> None:
        other = driver.other_queue("other")
        with driver.store.subscribe() as subscription:
            subscription.add([(driver.queue, "ready")])
            assert is_notified(subscription, (driver.queue, "ready"))
            subscription.add([(other.queue, "ready")])
            assert is_notified(subscription, (other.queue, "ready"))
            assert silent(subscription)
            driver.enqueue("a")
            other.enqueue("b")

            assert is_notified(subscription, (driver.queue, "ready"), (other.queue, "ready"))

    def test_what_was_removed_is_not_reported(self, driver: QueueDriver) -> None:
        other = driver.other_queue("other")
        with driver.store.subscribe() as subscription:
            subscription.add([(driver.queue, "ready"), (other.queue, "ready")])
            assert is_notified(subscription, (driver.queue, "ready"), (other.queue, "ready"))
            assert silent(subscription)
            subscription.remove([(driver.queue, "ready")])
            assert silent(subscription)
            driver.enqueue("a")
            other.enqueue("b")

            changed = subscription.wait(SOON)
            assert changed is None or set(changed) == {(other.queue, "ready")}

    def test_what_was_removed_can_be_added_again(self, driver: QueueDriver) -> None:
        with driver.store.subscribe() as subscription:
            for n in range(3):
                subscription.add([(driver.queue, "changes")])
                assert is_notified(subscription, (driver.queue, "changes"))
                assert silent(subscription)
                driver.enqueue(str(n))
                assert is_notified(subscription, (driver.queue, "changes"))
                subscription.remove([(driver.queue, "changes")])
                assert silent(subscription)

    def test_a_listener_of_the_same_subject_is_still_woken(self, driver: QueueDriver) -> None:
        with driver.store.listen([driver.queue], "ready") as listener:
            with driver.store.subscribe() as subscription:
                subscription.add([(driver.queue, "ready")])
                assert is_notified(subscription, (driver.queue, "ready"))
                subscription.remove([(driver.queue, "ready")])
                assert silent(subscription)
            assert quiet(listener)
            driver.enqueue("a")

            assert listener.wait(SOON)

    def test_claimers_are_notified_after_each_empty_claim(self, driver: QueueDriver) -> None:
        with driver.store.subscribe() as subscription:
            subscription.add([(driver.queue, "ready")])
            for n in range(3):
                assert is_notified(subscription, (driver.queue, "ready"))
                assert driver.claim_jobs() == []
                assert silent(subscription)
                driver.enqueue(str(n))
                assert is_notified(subscription, (driver.queue, "ready"))
                assert driver.claim_one().id == str(n)
                assert driver.claim_jobs() == []
                driver.enqueue(f"{n} again")
                assert is_notified(subscription, (driver.queue, "ready"))
                assert driver.claim_one().id == f"{n} again"
                subscription.remove([(driver.queue, "ready")])
                subscription.add([(driver.queue, "ready")])

    def test_the_end_of_a_job_and_a_cancel_request_are_reported(self, driver: QueueDriver) -> None:
        job = driver.enqueue_and_claim("a")
        with driver.store.subscribe() as subscription:
            subjects: list[Subject] = [
                (driver.queue, "finished"),
                (driver.queue, "cancel_requests"),
            ]
            subscription.add(subjects)
            assert is_notified(subscription, *subjects)
            assert silent(subscription)
            driver.apply_one(request_cancel("a"))
            assert is_notified(subscription, (driver.queue, "cancel_requests"))
            driver.complete(job)

            assert is_notified(subscription, (driver.queue, "finished"))

    def test_thousands_of_subjects_are_added_at_once(self, driver: QueueDriver) -> None:
        queues = [driver.other_queue(f"queue {n}").queue for n in range(3000)]
        with driver.store.subscribe() as subscription:
            subscription.add((queue, "ready") for queue in queues)
            assert is_notified(subscription, *((queue, "ready") for queue in queues))
            assert silent(subscription)
            last = driver.other_queue("queue 2999")
            last.enqueue("a")

            assert is_notified(subscription, (last.queue, "ready"))
            subscription.remove((queue, "ready") for queue in queues)
            assert silent(subscription)
        assert [info.key for info in driver.store.describe(driver.queue.tenant)] == [last.queue]

    def test_wake_ends_the_wait(self, driver: QueueDriver) -> None:
        with driver.store.subscribe() as subscription:
            thread = threading.Thread(target=subscription.wake)
            thread.start()
            began = time.monotonic()
            subscription.wait(SOON)

            assert time.monotonic() - began < SOON
            thread.join()

    def test_a_subscription_can_be_closed_twice(self, driver: QueueDriver) -> None:
        subscription = driver.store.subscribe()
        subscription.add([(driver.queue, "ready")])
        assert is_notified(subscription, (driver.queue, "ready"))
        subscription.close()
        subscription.close()

        assert driver.enqueue("a").accepted


class ListenRules(StoreCase):
    """Each change after `listen` wakes the listener, even if it is not waiting yet."""

    def test_a_wait_ends_without_a_change(self, driver: QueueDriver) -> None:
        driver.enqueue("a")
        with driver.store.listen([driver.queue], "ready") as listener:
            assert quiet(listener)

    @pytest.mark.parametrize("topic", ["ready", "changes"])
    def test_an_enqueue_before_the_wait_is_not_missed(
        self, driver: QueueDriver, topic: Topic
    ) -> None:
        driver.enqueue("before")
        with driver.store.listen([driver.queue], topic) as listener:
            assert quiet(listener)
            driver.enqueue("a")

            assert listener.wait(SOON)

    def test_a_waiting_thread_is_woken(self, driver: QueueDriver) -> None:
        waiting = threading.Event()
        woken: list[bool] = []
        with driver.store.listen([driver.queue], "ready") as listener:

            def wait() -> None:
                waiting.set()
                woken.append(listener.wait(SOON))

            thread = threading.Thread(target=wait)
            thread.start()
            waiting.wait()
            driver.enqueue("a")
            thread.join()

        assert woken == [True]

    @pytest.mark.parametrize("way", get_args(Readying))
    def test_jobs_that_become_ready_wake_workers(self, driver: QueueDriver, way: Readying) -> None:
        driver.enqueue("later", delay=60.0)
        job = driver.enqueue_and_claim("a")
        driver.configure(paused=way == "resume")
        driver.clock.advance(60.0)
        with driver.store.listen([driver.queue], "ready") as listener:
            assert quiet(listener)
            match way:
                case "release":
                    driver.apply_one(release(job, policy_of(job)))
                case "expire":
                    driver.sweep()
                case "resume":
                    driver.configure(paused=False)
                case "promote":
                    driver.store.promote(driver.queue, 10)
                case "schedule":
                    driver.enqueue("sooner", delay=1.0)

            assert listener.wait(SOON)

    def test_the_end_of_a_job_wakes_the_workers_of_its_group(self, driver: QueueDriver) -> None:
        driver.enqueue_all("ab", group="g")
        job = driver.claim_one()
        assert driver.claim_jobs() == []
        with driver.store.listen([driver.queue], "ready") as listener:
            assert quiet(listener)
            driver.complete(job)

            assert listener.wait(SOON)

    @pytest.mark.parametrize("end", ["complete", "cancel", "purge"])
    def test_the_end_of_a_job_wakes_listeners_for_ends(self, driver: QueueDriver, end: str) -> None:
        job = driver.enqueue_and_claim("a")
        driver.enqueue("b")
        with driver.store.listen([driver.queue], "finished") as listener:
            assert quiet(listener)
            match end:
                case "complete":
                    driver.complete(job)
                case "cancel":
                    driver.apply_one(cancel("b", policy_of(job)))
                case _:
                    driver.store.purge(driver.queue, Filter(), 10)

            assert listener.wait(SOON)

    def test_a_completion_wakes_listeners_for_changes(self, driver: QueueDriver) -> None:
        job = driver.enqueue_and_claim("a")
        with driver.store.listen([driver.queue], "changes") as listener:
            assert quiet(listener)
            driver.complete(job)

            assert listener.wait(SOON)

    def test_a_cancel_request_wakes_listeners(self, driver: QueueDriver) -> None:
        driver.enqueue_and_claim("a")
        with driver.store.listen([driver.queue], "cancel_requests") as listener:
            assert quiet(listener)
            driver.apply_one(request_cancel("a"))

            assert listener.wait(SOON)

    def test_a_move_wakes_the_workers_of_its_target(self, driver: QueueDriver) -> None:
        other = driver.other_queue("other")
        driver.enqueue("a")
        with driver.store.listen([other.queue], "ready") as listener:
            assert quiet(listener)
            driver.apply_one(move("a", other.queue))

            assert listener.wait(SOON)

    def test_a_worker_is_woken_after_each_empty_claim(self, driver: QueueDriver) -> None:
        """What every worker does: claim until nothing is left, then wait."""
        with driver.store.listen([driver.queue], "ready") as listener:
            for n in range(3):
                assert driver.claim_jobs() == []
                assert quiet(listener)
                driver.enqueue(str(n))

                assert listener.wait(SOON)
                assert driver.claim_one().id == str(n)

    def test_one_listener_is_woken_by_several_queues(self, driver: QueueDriver) -> None:
        other = driver.other_queue("other", tenant="acme")
        with driver.store.listen([driver.queue, other.queue], "ready") as listener:
            for queue in (driver, other):
                assert quiet(listener)
                queue.enqueue("a")
                assert listener.wait(SOON)

    def test_wake_ends_the_wait_from_another_thread(self, driver: QueueDriver) -> None:
        with driver.store.listen([driver.queue], "ready") as listener:
            assert quiet(listener)
            thread = threading.Thread(target=listener.wake)
            thread.start()

            assert listener.wait(SOON)
            thread.join()

    def test_wake_before_the_wait_ends_the_next_one(self, driver: QueueDriver) -> None:
        with driver.store.listen([driver.queue], "ready") as listener:
            assert quiet(listener)
            listener.wake()

            assert listener.wait(SOON)

    def test_a_listener_can_be_closed_twice(self, driver: QueueDriver) -> None:
        listener = driver.store.listen([driver.queue], "ready")
        listener.close()
        listener.close()

        assert driver.enqueue("a").accepted
