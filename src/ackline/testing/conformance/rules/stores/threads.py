"""Many threads on one store."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from ackline.core.events import Act
from ackline.core.job import Record, State
from ackline.core.lifecycle import Edit, Transition, complete, edit, expected_from
from ackline.testing.conformance.case import StoreCase
from ackline.testing.conformance.driver import QueueDriver, policy_of
from ackline.testing.journal_checker import check_journal


class ThreadRules(StoreCase):
    """Rules 2 and 3, with real threads: each job is accepted as completed exactly once."""

    def test_eight_threads_complete_two_thousand_jobs_once_each(self, driver: QueueDriver) -> None:
        total = 2000
        driver.enqueue_all(map(str, range(total)))
        barrier = threading.Barrier(8)

        def work(worker: int) -> list[str]:
            accepted: list[str] = []
            leased: list[Record] = []
            barrier.wait()
            while True:
                steps = [complete(job, job.id.encode(), policy_of(job)) for job in leased]
                claimed = driver.claim(20, worker=f"w{worker}", transitions=steps)
                verdicts = zip(leased, claimed.verdicts, strict=True)
                accepted += [job.id for job, verdict in verdicts if verdict.applied]
                leased = claimed.jobs
                if not leased:
                    return accepted

        with ThreadPoolExecutor(8) as threads:
            accepted = Counter(id for ids in threads.map(work, range(8)) for id in ids)

        assert accepted == Counter(map(str, range(total)))
        assert driver.counts() == {State.COMPLETED: total}
        events = driver.journal()
        check_journal(events)
        assert Counter(event.act for event in events) == dict.fromkeys(
            (Act.ENQUEUE, Act.CLAIM, Act.COMPLETE), total
        )

    def test_one_lease_settled_by_many_threads_has_one_effect(self, driver: QueueDriver) -> None:
        """Rule 3: one of several results is stored, and only its sender is told so."""
        job = driver.enqueue_and_claim("a")
        barrier = threading.Barrier(8)

        def settle(n: int) -> tuple[bytes, bool]:
            step: Transition = complete(job, b"%d" % n, policy_of(job))
            barrier.wait()
            return b"%d" % n, driver.apply_one(step).applied

        with ThreadPoolExecutor(8) as threads:
            outcomes = list(threads.map(settle, range(8)))

        assert [result for result, applied in outcomes if applied] == [driver.get("a").result]
        assert [act for act, _, _ in driver.steps("a")].count(Act.COMPLETE) == 1

    def test_of_many_editors_who_saw_the_same_one_wins(self, driver: QueueDriver) -> None:
        driver.enqueue("a")
        seen = expected_from(driver.get("a"))
        barrier = threading.Barrier(8)

        def change(n: int) -> tuple[bytes, bool]:
            step = edit("a", Edit(payload=b"%d" % n), expected=seen)
            barrier.wait()
            return b"%d" % n, driver.apply_one(step).applied

        with ThreadPoolExecutor(8) as threads:
            outcomes = list(threads.map(change, range(8)))

        assert [payload for payload, won in outcomes if won] == [driver.get("a").payload]

    def test_no_group_runs_over_its_limit_on_any_thread(self, driver: QueueDriver) -> None:
        driver.enqueue_all(map(str, range(60)), group="g")
        running = threading.Semaphore(1)
        over: list[str] = []
        done: list[str] = []

        def work(worker: int) -> None:
            rounds = 0
            while len(done) < 60 and rounds < 5000:
                rounds += 1
                for job in driver.claim_jobs(5, worker=f"w{worker}"):
                    if not running.acquire(blocking=False):
                        over.append(job.id)
                    done.append(job.id)
                    running.release()
                    driver.complete(job)

        with ThreadPoolExecutor(4) as threads:
            list(threads.map(work, range(4)))

        assert over == []
        assert sorted(done, key=int) == [str(n) for n in range(60)]
