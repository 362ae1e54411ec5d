"""What the demo does, and when: everyday traffic, and an act of trouble that is repeated."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import math
import os
import signal
import time
from collections.abc import Callable, Iterator

from ackline import JobNotFound, NewJob, Queues
from ackline.demo.ledger import Ledger, Producer
from ackline.demo.traffic import TIDES, Traffic
from ackline.job import State

QUEUES = tuple(dict.fromkeys(tide.queue for tide in TIDES))

POISON = "reconcile"
"""The kind that kills its worker."""

ACT = 45.0
"""Seconds from one act of trouble to the next."""

EVERY = 0.5
"""Seconds between two batches of everyday jobs."""

DRAIN = 0.4
"""The share of a short demo's time in which nothing new comes, so that the queues drain; …"""
LONGEST_DRAIN = 8.0
"""… in seconds, at most."""

Step = Callable[[], None]


class Story:
    """Plays the script, for some seconds or without an end."""

    def __init__(self, queues: Queues, seconds: float | None, tell: Callable[[str], None]) -> None:
        self.ledger = Ledger()
        self._queues = queues
        self._producer = Producer(queues, self.ledger)
        self._traffic = Traffic()
        self._tell = tell
        whole = math.inf if seconds is None else seconds
        self._act = min(ACT, whole)
        self._ends = whole - min(DRAIN * whole, LONGEST_DRAIN) if seconds else math.inf
        self._turn = 0
        self._seeks_a_victim = False
        self._order = itertools.count()
        self._script: list[tuple[float, int, Step]] = []
        self._at(0.0, self._everyday)
        self._at(0.0, self._begin_act)

    def play(self, elapsed: float) -> None:
        """Take all steps that are due by now."""
        while self._script and self._script[0][0] <= min(elapsed, self._ends):
            at, _, step = heapq.heappop(self._script)
            self._now = at
            step()
        if self._seeks_a_victim:
            self._kill_a_worker()

    def _at(self, moment: float, step: Step) -> None:
        heapq.heappush(self._script, (moment, next(self._order), step))

    # --- the script ---

    def _everyday(self) -> None:
        for queue, jobs in self._traffic.jobs(self._now, EVERY).items():
            self._producer.enqueue_many(queue, jobs)
        self._at(self._now + EVERY, self._everyday)

    def _begin_act(self) -> None:
        self._turn += 1
        for share, step in self._steps():
            self._at(self._now + share * self._act, step)
        self._at(self._now + self._act, self._begin_act)

    def _steps(self) -> Iterator[tuple[float, Step]]:
        yield 0.0, self._newsletters
        yield 0.0, self._schedule_reports
        yield 0.08, self._password_resets
        yield 0.12, self._payments_before_the_bank_opens
        yield 0.16, self._trouble
        yield 0.24, self._same_payment_again
        yield 0.30, self._photos
        yield 0.34, self._kill_a_worker
        yield 0.40, self._cancel_reports
        yield 0.50, self._poison

    def _newsletters(self) -> None:
        jobs = [
            NewJob(
                {"to": f"reader-{n}@acme.example", "fails": int(n % 40 == 7), "takes": 0.4},
                id=self._id(f"news-{n}"),
            )
            for n in range(300)
        ]
        self._producer.enqueue_many("acme/email", jobs, kind="newsletter", priority=1)
        self._tell("300 newsletters enqueued at priority 1, one durable write")

    def _schedule_reports(self) -> None:
        # The second runs long enough to be cancelled while it runs, the third never starts.
        soon = min(2.0, 0.15 * self._act)
        for n, pages, delay in ((1, 5, soon), (2, 600, soon), (3, 5, 3600.0)):
            self._producer.enqueue(
                "globex/reports",
                {"pages": pages},
                id=self._id(f"report-{n}"),
                kind="monthly",
                delay=delay,
                priority=8,
            )
        self._tell(f"3 reports scheduled: two in {soon:.1f} s, one in an hour")

    def _password_resets(self) -> None:
        for n in range(3):
            payload = {"to": f"urgent-{n}@acme.example"}
            options = {"kind": "password-reset", "priority": 9}
            self._producer.enqueue("acme/email", payload, id=self._id(f"reset-{n}"), **options)
        self._tell("3 password resets enqueued at priority 9: they overtake the newsletters")

    def _payments_before_the_bank_opens(self) -> None:
        wait = min(2.0, 0.15 * self._act)
        for n in range(3):
            payload = {"amount": 100, "bank_opens_at": time.time() + wait}
            self._charge(f"early-{n}", payload)
        self._tell(f"3 payments come before the bank opens: they snooze for {wait:.1f} s")

    def _trouble(self) -> None:
        broken = {"file": "cat.txt", "broken": 1}
        self._producer.enqueue(
            "acme/images", broken, id=self._id("img-broken"), kind="resize", max_attempts=3
        )
        self._producer.enqueue("acme/images", {"hangs": 1}, id=self._id("scan"), kind="scan")
        self._charge("pay-stolen", {"amount": 1, "stolen": 1})
        self._tell("a broken image, a scan that hangs, a stolen card")

    def _same_payment_again(self) -> None:
        before = self.ledger.duplicates
        for _ in range(4):
            self._charge("pay-once", {"amount": 11})
        known = self.ledger.duplicates - before
        self._tell(f"pay-once submitted 4 times: {known} times answered as known, charged once")

    def _photos(self) -> None:
        jobs = [
            NewJob({"file": f"photo-{n}.jpg", "takes": 0.3}, id=self._id(f"photo-{n}"))
            for n in range(60)
        ]
        self._producer.enqueue_many("acme/images", jobs, kind="resize")
        self._tell("60 photos uploaded at once")

    def _cancel_reports(self) -> None:
        for name in ("report-2", "report-3"):
            id = self._id(name)
            with contextlib.suppress(JobNotFound):
                state = self._queues["globex/reports"].cancel(id, by="demo")
                how = "its handler is asked to stop" if state is State.PROCESSING else state
                self._tell(f"cancel {id}: {how}")

    def _poison(self) -> None:
        id = self._id("poison")
        self._producer.enqueue("acme/payments", {}, id=id, kind=POISON, priority=9)
        self._tell("a poison job: it kills every process that runs it, 2 attempts")

    def _charge(self, name: str, payload: object) -> None:
        self._producer.enqueue("acme/payments", payload, id=self._id(name), kind="charge")

    def _id(self, name: str) -> str:
        """The id of a job in this act; each later act has other ids."""
        return name if self._turn == 1 else f"{name}.{self._turn}"

    # --- bad luck ---

    def _kill_a_worker(self) -> None:
        """Kill the worker that holds the most jobs."""
        holds, pids = self._living()
        id = max(holds, key=lambda id: holds[id], default="")
        # The workers may still be starting or be idle, or this one has just died otherwise: then
        # `play` tries again, even after the last step of the script.
        self._seeks_a_victim = not (holds.get(id) and _kill(pids[id]))
        if not self._seeks_a_victim:
            self.ledger.kills[id] = time.time()
            self._tell(f"kill -9 {pids[id]}: a worker with {holds[id]} jobs in hand")

    def _living(self) -> tuple[dict[str, int], dict[str, int]]:
        """How many jobs each live worker holds, and its process id."""
        now = self._queues.store.now()
        holds: dict[str, int] = {}
        pids: dict[str, int] = {}
        for name in QUEUES:
            for worker in self._queues[name].workers():
                if worker.expires_at > now:
                    id = worker.beat.id
                    holds[id] = holds.get(id, 0) + worker.holds
                    pids[id] = worker.beat.pid
        return holds, pids


def _kill(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True
