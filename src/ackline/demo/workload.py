"""The demo's workload: routine jobs of three customers, and faults at regular intervals."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from ackline import JobNotFound, NewJob, Queued, Queues
from ackline.core.job import State

JobName = tuple[str, str]
"""Queue and id."""

RATES = {
    ("acme/email", "welcome"): 4.0,
    ("acme/images", "resize"): 2.0,
    ("acme/payments", "charge"): 1.5,
    ("globex/email", "welcome"): 3.0,
    ("globex/reports", "monthly"): 0.2,
    ("initech/orders", "fulfil"): 2.0,
    ("initech/webhooks", "deliver"): 2.0,
}
"""Jobs per second, by queue and kind."""

QUEUES = [queue for queue, _ in RATES]


class Workload:
    """Enqueues jobs and remembers which were accepted."""

    def __init__(self, queues: Queues, log: Callable[[str], None]) -> None:
        self.accepted: set[JobName] = set()
        self._queues = queues
        self._log = log
        self._random = random.Random(7)
        self._number = 0

    def put(self, queue: str, *jobs: NewJob[Any], **options: Any) -> int:
        """Enqueue jobs in one durable write; returns how many were duplicates."""
        answers = self._queues[queue].enqueue_many(jobs, **options)
        new = {(queue, answer.id) for answer in answers if isinstance(answer, Queued)}
        self.accepted |= new
        return len(answers) - len(new)

    def enqueue_routine(self, seconds: float) -> None:
        """Enqueue the routine jobs of this many seconds."""
        for (queue, kind), rate in RATES.items():
            # Rounded at random, so that small rates are met on average.
            jobs = [self._job(kind) for _ in range(int(rate * seconds + self._random.random()))]
            if jobs:
                self.put(queue, *jobs, kind=kind)

    def _job(self, kind: str) -> NewJob[Any]:
        self._number += 1
        number, fails = self._number, self._random.choice([0] * 9 + [1, 2])
        payload: dict[str, Any] = {"takes": round(self._random.uniform(0.1, 0.8), 2)}
        options: dict[str, Any] = {"id": f"{kind}-{number}"}
        match kind:
            case "welcome":
                payload |= {"to": f"user-{number}@customer.example", "fails": fails}
            case "resize":
                payload |= {"file": f"products/{number}.jpg"}
            case "charge":
                payload |= {"order": 4000 + number, "amount": self._random.randint(5, 200)}
                options |= {"priority": 7}
            case "monthly":
                payload |= {"customer": number, "pages": self._random.randint(10, 60)}
                options |= {"delay": self._random.choice([0, 0, 0, 30])}
            case "fulfil":
                payload |= {"order": 4000 + number, "article": number % 900, "fails": fails}
                options |= {"delay": self._random.choice([0] * 9 + [60])}
            case _:
                host = f"shop-{number % 6}.initech.example"
                payload |= {"host": host, "event": "order.paid", "down": fails == 2}
                options |= {"keys_if_undelivered": [["undelivered", host, f"deliver-{number}"]]}
        return NewJob(payload, **options)

    # --- faults ---

    def run_faults(self, number: int, seconds: float) -> Iterator[float]:
        """Cause every fault once; yields when to continue, in seconds from the start."""
        log, put = self._log, self.put

        def job(name: str, payload: dict[str, Any], **options: Any) -> NewJob[Any]:
            return NewJob(payload, id=name if number == 1 else f"{name}.{number}", **options)

        newsletters = [
            job(f"news-{n}", {"to": f"reader-{n}@acme.example", "fails": n % 40 == 7, "takes": 0.4})
            for n in range(300)
        ]
        put("acme/email", *newsletters, kind="newsletter", priority=1)
        log("300 newsletters enqueued at priority 1, one durable write")
        soon = min(2.0, 0.15 * seconds)
        reports = [(1, 5, soon), (2, 600, soon), (3, 5, 3600.0)]
        jobs = [job(f"report-{n}", {"pages": p}, delay=delay) for n, p, delay in reports]
        put("globex/reports", *jobs, kind="monthly", priority=8)
        log(f"3 reports scheduled: two in {soon:.1f} s, one in an hour")
        yield 0.1 * seconds
        opens = {"amount": 100, "bank_opens_at": time.time() + soon}
        put("acme/payments", *(job(f"early-{n}", opens) for n in range(3)), kind="charge")
        log(f"3 payments before the bank opens: they snooze for {soon:.1f} s")
        yield 0.15 * seconds
        put("acme/images", job("broken", {"file": "cat.txt", "broken": True}), kind="resize")
        put("acme/images", job("scan", {}), kind="scan")
        put("acme/payments", job("stolen", {"stolen": True}), kind="charge")
        log("a broken image, a scan that hangs, a stolen card")
        yield 0.25 * seconds
        duplicates = sum(
            put("acme/payments", job("once", {"amount": 11}), kind="charge") for _ in range(4)
        )
        log(f"one payment submitted 4 times: {duplicates} duplicates, charged once")
        while not self._kill_busiest_worker():
            yield 0.35 * seconds
        yield 0.4 * seconds
        for one in jobs[1:]:
            with contextlib.suppress(JobNotFound):
                state = self._queues["globex/reports"].cancel(one.options["id"], by="demo")
                running = state is State.PROCESSING
                log(f"cancel {one.options['id']}: {'cancel requested' if running else state}")
        yield 0.5 * seconds
        put("acme/payments", job("poison", {}), kind="reconcile", priority=9)
        log("a poison job: it kills every process that runs it; it has 2 attempts")
        yield seconds

    def _kill_busiest_worker(self) -> bool:
        """Kill the worker with the most leases; False if none has any."""
        now, leases, pids = self._queues.store.now(), Counter[str](), dict[str, int]()
        for worker in (one for name in QUEUES for one in self._queues[name].workers()):
            if worker.expires_at > now:
                leases[worker.heartbeat.id] += worker.leases
                pids[worker.heartbeat.id] = worker.heartbeat.pid
        [(id, number)] = leases.most_common(1) or [("", 0)]
        if number:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pids[id], signal.SIGKILL)
            self._log(f"kill -9 {pids[id]}: a worker with {number} leases")
        return number > 0
