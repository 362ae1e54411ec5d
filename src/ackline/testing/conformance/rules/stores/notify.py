"""Wake-ups: subscribe first, then look."""

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
    """Whether a listener stops waking up once its pending wake-ups are used up."""
    return any(not listener.wait(0.01) for _ in range(20))


def is_notified(subscription: Subscription, *subjects: Subject) -> bool:
    """Whether a subscription reports news of all these subjects soon."""
    missing, until = set(subjects), time.monotonic() + SOON
    while missing and time.monotonic() < until:
        news = subscription.wait(until - time.monotonic())
        missing = set() if news is None else missing.difference(news)
    return not missing


def silent(subscription: Subscription) -> bool:
    """Whether a subscription has nothing more to report."""
    return any(not _notifies(subscription) for _ in range(20))


def _notifies(subscription: Subscription) -> bool:
    news = subscription.wait(0.01)
    return news is None or bool(news)


class SubscribeRules(StoreCase):
    """One subscription hears of many subjects, and says which of them have news."""

    def test_what_was_added_is_reported_once(self, bench: QueueDriver) -> None:
        with bench.store.subscribe() as subscription:
            subscription.add([(bench.queue, "ready")])

            assert is_notified(subscription, (bench.queue, "ready"))
            assert silent(subscription)

    def test_nothing_is_missed_after_that(self, bench: QueueDriver) -> None:
        with bench.store.subscribe() as subscription:
            subscription.add([(bench.queue, "ready"), (bench.queue, "changes")])
            assert is_notified(subscription, (bench.queue, "ready"), (bench.queue, "changes"))
            assert silent(subscription)
            bench.put("a")

            assert is_notified(subscription, (bench.queue, "ready"), (bench.queue, "changes"))

    def test_it_says_which_subject_has_news(self, bench: QueueDriver) -> None:
        queues = [bench.other_queue(f"queue {n}", tenant=f"tenant {n % 3}") for n in range(30)]
        with bench.store.subscribe() as subscription:
            subscription.add((one.queue, "ready") for one in queues)
            assert is_notified(subscription, *((one.queue, "ready") for one in queues))
            assert silent(subscription)
            queues[7].put("a")

            news = subscription.wait(SOON)
            assert news is None or set(news) == {(queues[7].queue, "ready")}

    def test_subjects_come_while_it_waits(self, bench: QueueDriver) -> None:
        other = bench.other_queue("other")
        with bench.store.subscribe() as subscription:
            subscription.add([(bench.queue, "ready")])
            assert is_notified(subscription, (bench.queue, "ready"))
            subscription.add([(other.queue, "ready")])
            assert is_notified(subscription, (other.queue, "ready"))
            assert silent(subscription)
            bench.put("a")
            other.put("b")

            assert is_notified(subscription, (bench.queue, "ready"), (other.queue, "ready"))

    def test_what_was_removed_is_not_reported(self, bench: QueueDriver) -> None:
        other = bench.other_queue("other")
        with bench.store.subscribe() as subscription:
            subscription.add([(bench.queue, "ready"), (other.queue, "ready")])
            assert is_notified(subscription, (bench.queue, "ready"), (other.queue, "ready"))
            assert silent(subscription)
            subscription.remove([(bench.queue, "ready")])
            assert silent(subscription)
            bench.put("a")
            other.put("b")

            news = subscription.wait(SOON)
            assert news is None or set(news) == {(other.queue, "ready")}

    def test_what_was_removed_can_be_added_again(self, bench: QueueDriver) -> None:
        with bench.store.subscribe() as subscription:
            for n in range(3):
                subscription.add([(bench.queue, "changes")])
                assert is_notified(subscription, (bench.queue, "changes"))
                assert silent(subscription)
                bench.put(str(n))
                assert is_notified(subscription, (bench.queue, "changes"))
                subscription.remove([(bench.queue, "changes")])
                assert silent(subscription)

    def test_a_listener_of_the_same_subject_still_hears(self, bench: QueueDriver) -> None:
        with bench.store.listen([bench.queue], "ready") as listener:
            with bench.store.subscribe() as subscription:
                subscription.add([(bench.queue, "ready")])
                assert is_notified(subscription, (bench.queue, "ready"))
                subscription.remove([(bench.queue, "ready")])
                assert silent(subscription)
            assert quiet(listener)
            bench.put("a")

            assert listener.wait(SOON)

    def test_claimers_are_told_each_time_they_went_away_empty_handed(
        self, bench: QueueDriver
    ) -> None:
        with bench.store.subscribe() as subscription:
            subscription.add([(bench.queue, "ready")])
            for n in range(3):
                assert is_notified(subscription, (bench.queue, "ready"))
                assert bench.take() == []
                assert silent(subscription)
                bench.put(str(n))
                assert is_notified(subscription, (bench.queue, "ready"))
                assert bench.take_one().id == str(n)
                assert bench.take() == []
                bench.put(f"{n} again")
                assert is_notified(subscription, (bench.queue, "ready"))
                assert bench.take_one().id == f"{n} again"
                subscription.remove([(bench.queue, "ready")])
                subscription.add([(bench.queue, "ready")])

    def test_the_end_of_a_job_and_a_cancel_request_are_told(self, bench: QueueDriver) -> None:
        job = bench.taken("a")
        with bench.store.subscribe() as subscription:
            subjects: list[Subject] = [(bench.queue, "finished"), (bench.queue, "cancel_requests")]
            subscription.add(subjects)
            assert is_notified(subscription, *subjects)
            assert silent(subscription)
            bench.apply_one(request_cancel("a"))
            assert is_notified(subscription, (bench.queue, "cancel_requests"))
            bench.complete(job)

            assert is_notified(subscription, (bench.queue, "finished"))

    def test_thousands_of_subjects_are_added_at_once(self, bench: QueueDriver) -> None:
        queues = [bench.other_queue(f"queue {n}").queue for n in range(3000)]
        with bench.store.subscribe() as subscription:
            subscription.add((queue, "ready") for queue in queues)
            assert is_notified(subscription, *((queue, "ready") for queue in queues))
            assert silent(subscription)
            last = bench.other_queue("queue 2999")
            last.put("a")

            assert is_notified(subscription, (last.queue, "ready"))
            subscription.remove((queue, "ready") for queue in queues)
            assert silent(subscription)
        assert [info.key for info in bench.store.describe(bench.queue.tenant)] == [last.queue]

    def test_wake_ends_the_wait(self, bench: QueueDriver) -> None:
        with bench.store.subscribe() as subscription:
            thread = threading.Thread(target=subscription.wake)
            thread.start()
            began = time.monotonic()
            subscription.wait(SOON)

            assert time.monotonic() - began < SOON
            thread.join()

    def test_a_subscription_can_be_closed_twice(self, bench: QueueDriver) -> None:
        subscription = bench.store.subscribe()
        subscription.add([(bench.queue, "ready")])
        assert is_notified(subscription, (bench.queue, "ready"))
        subscription.close()
        subscription.close()

        assert bench.put("a").accepted


class ListenRules(StoreCase):
    """Each change after `listen` wakes the listener, even if it is not waiting yet."""

    def test_nothing_happens_and_the_wait_ends(self, bench: QueueDriver) -> None:
        bench.put("a")
        with bench.store.listen([bench.queue], "ready") as listener:
            assert quiet(listener)

    @pytest.mark.parametrize("topic", ["ready", "changes"])
    def test_an_enqueue_before_the_wait_is_not_missed(
        self, bench: QueueDriver, topic: Topic
    ) -> None:
        bench.put("before")
        with bench.store.listen([bench.queue], topic) as listener:
            assert quiet(listener)
            bench.put("a")

            assert listener.wait(SOON)

    def test_a_waiting_thread_is_woken(self, bench: QueueDriver) -> None:
        waiting = threading.Event()
        woken: list[bool] = []
        with bench.store.listen([bench.queue], "ready") as listener:

            def wait() -> None:
                waiting.set()
                woken.append(listener.wait(SOON))

            thread = threading.Thread(target=wait)
            thread.start()
            waiting.wait()
            bench.put("a")
            thread.join()

        assert woken == [True]

    @pytest.mark.parametrize("way", get_args(Readying))
    def test_jobs_that_become_ready_wake_workers(self, bench: QueueDriver, way: Readying) -> None:
        bench.put("later", delay=60.0)
        job = bench.taken("a")
        bench.configure(paused=way == "resume")
        bench.clock.advance(60.0)
        with bench.store.listen([bench.queue], "ready") as listener:
            assert quiet(listener)
            match way:
                case "release":
                    bench.apply_one(release(job, policy_of(job)))
                case "expire":
                    bench.sweep()
                case "resume":
                    bench.configure(paused=False)
                case "promote":
                    bench.store.promote(bench.queue, 10)
                case "schedule":
                    bench.put("sooner", delay=1.0)

            assert listener.wait(SOON)

    def test_the_end_of_a_job_wakes_the_workers_of_its_group(self, bench: QueueDriver) -> None:
        bench.put_all("ab", group="g")
        job = bench.take_one()
        assert bench.take() == []
        with bench.store.listen([bench.queue], "ready") as listener:
            assert quiet(listener)
            bench.complete(job)

            assert listener.wait(SOON)

    @pytest.mark.parametrize("end", ["complete", "cancel", "purge"])
    def test_the_end_of_a_job_wakes_those_who_wait_for_ends(
        self, bench: QueueDriver, end: str
    ) -> None:
        job = bench.taken("a")
        bench.put("b")
        with bench.store.listen([bench.queue], "finished") as listener:
            assert quiet(listener)
            match end:
                case "complete":
                    bench.complete(job)
                case "cancel":
                    bench.apply_one(cancel("b", policy_of(job)))
                case _:
                    bench.store.purge(bench.queue, Filter(), 10)

            assert listener.wait(SOON)

    def test_a_completion_wakes_those_who_wait_for_changes(self, bench: QueueDriver) -> None:
        job = bench.taken("a")
        with bench.store.listen([bench.queue], "changes") as listener:
            assert quiet(listener)
            bench.complete(job)

            assert listener.wait(SOON)

    def test_a_cancel_request_is_signalled(self, bench: QueueDriver) -> None:
        bench.taken("a")
        with bench.store.listen([bench.queue], "cancel_requests") as listener:
            assert quiet(listener)
            bench.apply_one(request_cancel("a"))

            assert listener.wait(SOON)

    def test_a_move_wakes_the_workers_of_its_target(self, bench: QueueDriver) -> None:
        other = bench.other_queue("other")
        bench.put("a")
        with bench.store.listen([other.queue], "ready") as listener:
            assert quiet(listener)
            bench.apply_one(move("a", other.queue))

            assert listener.wait(SOON)

    def test_a_worker_is_woken_each_time_it_went_away_empty_handed(
        self, bench: QueueDriver
    ) -> None:
        """What every worker does: claim until nothing is left, then wait."""
        with bench.store.listen([bench.queue], "ready") as listener:
            for n in range(3):
                assert bench.take() == []
                assert quiet(listener)
                bench.put(str(n))

                assert listener.wait(SOON)
                assert bench.take_one().id == str(n)

    def test_one_listener_hears_several_queues(self, bench: QueueDriver) -> None:
        other = bench.other_queue("other", tenant="acme")
        with bench.store.listen([bench.queue, other.queue], "ready") as listener:
            for queue in (bench, other):
                assert quiet(listener)
                queue.put("a")
                assert listener.wait(SOON)

    def test_wake_ends_the_wait_from_another_thread(self, bench: QueueDriver) -> None:
        with bench.store.listen([bench.queue], "ready") as listener:
            assert quiet(listener)
            thread = threading.Thread(target=listener.wake)
            thread.start()

            assert listener.wait(SOON)
            thread.join()

    def test_wake_before_the_wait_ends_the_next_one(self, bench: QueueDriver) -> None:
        with bench.store.listen([bench.queue], "ready") as listener:
            assert quiet(listener)
            listener.wake()

            assert listener.wait(SOON)

    def test_a_listener_can_be_closed_twice(self, bench: QueueDriver) -> None:
        listener = bench.store.listen([bench.queue], "ready")
        listener.close()
        listener.close()

        assert bench.put("a").accepted
