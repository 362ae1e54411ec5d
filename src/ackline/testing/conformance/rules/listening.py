"""Wake-ups: subscribe first, then look."""

from __future__ import annotations

import threading
from typing import Literal, get_args

import pytest

from ackline.lifecycle import cancel, move, release, request_cancel
from ackline.stores.base import Filter, Listener, Topic
from ackline.testing.conformance.bench import Bench, policy_of
from ackline.testing.conformance.case import StoreCase

Readying = Literal["release", "expire", "resume", "promote", "schedule"]

SOON = 5.0
"""Seconds; far more than a wake-up takes, so only a missed one waits this long."""


def quiet(listener: Listener) -> bool:
    """Whether a listener stops waking up once its pending wake-ups are used up."""
    return any(not listener.wait(0.01) for _ in range(20))


class ListenRules(StoreCase):
    """Each change after `listen` wakes the listener, even if it is not waiting yet."""

    def test_nothing_happens_and_the_wait_ends(self, bench: Bench) -> None:
        bench.put("a")
        with bench.store.listen([bench.queue], "ready") as listener:
            assert quiet(listener)

    @pytest.mark.parametrize("topic", ["ready", "changes"])
    def test_an_enqueue_before_the_wait_is_not_missed(self, bench: Bench, topic: Topic) -> None:
        bench.put("before")
        with bench.store.listen([bench.queue], topic) as listener:
            assert quiet(listener)
            bench.put("a")

            assert listener.wait(SOON)

    def test_a_waiting_thread_is_woken(self, bench: Bench) -> None:
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
    def test_jobs_that_become_ready_wake_workers(self, bench: Bench, way: Readying) -> None:
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

    def test_the_end_of_a_job_wakes_the_workers_of_its_group(self, bench: Bench) -> None:
        bench.put_all("ab", group="g")
        job = bench.take_one()
        assert bench.take() == []
        with bench.store.listen([bench.queue], "ready") as listener:
            assert quiet(listener)
            bench.complete(job)

            assert listener.wait(SOON)

    @pytest.mark.parametrize("end", ["complete", "cancel", "purge"])
    def test_the_end_of_a_job_wakes_those_who_wait_for_ends(self, bench: Bench, end: str) -> None:
        job = bench.taken("a")
        bench.put("b")
        with bench.store.listen([bench.queue], "ends") as listener:
            assert quiet(listener)
            match end:
                case "complete":
                    bench.complete(job)
                case "cancel":
                    bench.apply_one(cancel("b", policy_of(job)))
                case _:
                    bench.store.purge(bench.queue, Filter(), 10)

            assert listener.wait(SOON)

    def test_a_completion_wakes_those_who_wait_for_changes(self, bench: Bench) -> None:
        job = bench.taken("a")
        with bench.store.listen([bench.queue], "changes") as listener:
            assert quiet(listener)
            bench.complete(job)

            assert listener.wait(SOON)

    def test_a_cancel_request_is_signalled(self, bench: Bench) -> None:
        bench.taken("a")
        with bench.store.listen([bench.queue], "signals") as listener:
            assert quiet(listener)
            bench.apply_one(request_cancel("a"))

            assert listener.wait(SOON)

    def test_a_move_wakes_the_workers_of_its_target(self, bench: Bench) -> None:
        other = bench.beside("other")
        bench.put("a")
        with bench.store.listen([other.queue], "ready") as listener:
            assert quiet(listener)
            bench.apply_one(move("a", other.queue))

            assert listener.wait(SOON)

    def test_a_worker_is_woken_each_time_it_went_away_empty_handed(self, bench: Bench) -> None:
        """What every worker does: claim until nothing is left, then wait."""
        with bench.store.listen([bench.queue], "ready") as listener:
            for n in range(3):
                assert bench.take() == []
                assert quiet(listener)
                bench.put(str(n))

                assert listener.wait(SOON)
                assert bench.take_one().id == str(n)

    def test_one_listener_hears_several_queues(self, bench: Bench) -> None:
        other = bench.beside("other", tenant="acme")
        with bench.store.listen([bench.queue, other.queue], "ready") as listener:
            for queue in (bench, other):
                assert quiet(listener)
                queue.put("a")
                assert listener.wait(SOON)

    def test_wake_ends_the_wait_from_another_thread(self, bench: Bench) -> None:
        with bench.store.listen([bench.queue], "ready") as listener:
            assert quiet(listener)
            thread = threading.Thread(target=listener.wake)
            thread.start()

            assert listener.wait(SOON)
            thread.join()

    def test_wake_before_the_wait_ends_the_next_one(self, bench: Bench) -> None:
        with bench.store.listen([bench.queue], "ready") as listener:
            assert quiet(listener)
            listener.wake()

            assert listener.wait(SOON)

    def test_a_listener_can_be_closed_twice(self, bench: Bench) -> None:
        listener = bench.store.listen([bench.queue], "ready")
        listener.close()
        listener.close()

        assert bench.put("a").accepted
