"""What the demo enqueues, when, and what it does to its workers."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from ackline import JobNotFound, NewJob, Queued, Queues
from ackline.job import State
from ackline.queue import Enqueued, EnqueueOptions

QUEUES = ("email", "image", "payment", "report")


class Ledger(msgspec.Struct):
    """What the producer was told, kept apart from the store to be compared with it."""

    asked: set[tuple[str, str]] = msgspec.field(default_factory=set)
    """Noted before the store is called: an interrupted call may have been stored or not."""
    accepted: set[tuple[str, str]] = msgspec.field(default_factory=set)
    duplicates: int = 0
    kills: dict[str, float] = msgspec.field(default_factory=dict)
    """Worker id → when this demo sent it SIGKILL."""


class Story:
    """Plays the script: a fraction of the time each, then silence so that the queues drain."""

    def __init__(self, queues: Queues, seconds: float, tell: Callable[[str], None]) -> None:
        self.ledger = Ledger()
        self._queues = queues
        self._seconds = seconds
        self._tell = tell
        self._number = 0
        self._elapsed = 0.0
        self._script = sorted(self._steps(), key=lambda step: step[0])

    @property
    def over(self) -> bool:
        """Whether everything has been enqueued."""
        return not self._script

    def play(self, elapsed: float) -> None:
        """Do all that is due by now."""
        self._elapsed = elapsed
        while self._script and self._script[0][0] <= elapsed:
            self._script.pop(0)[1]()

    # --- the script ---

    def _steps(self) -> Iterator[tuple[float, Callable[[], None]]]:
        whole = self._seconds
        yield 0.0, self._newsletters
        yield 0.0, self._schedule_reports
        for index in range(int(whole * 0.55 / 0.2)):
            yield 0.2 * index, self._everyday
        yield 0.08 * whole, self._password_resets
        yield 0.12 * whole, self._payments_before_the_bank_opens
        yield 0.16 * whole, self._trouble
        yield 0.24 * whole, self._same_payment_again
        yield 0.30 * whole, self._photos
        yield 0.30 * whole + 0.3, self._kill_a_worker
        yield 0.40 * whole, self._cancel_reports
        yield 0.50 * whole, self._poison

    def _newsletters(self) -> None:
        jobs = [
            NewJob(
                {"to": f"reader-{n}@example.com", "fails": int(n % 40 == 7), "takes": 0.1},
                id=f"news-{n}",
            )
            for n in range(300)
        ]
        self._enqueue_many("email", jobs, kind="newsletter", priority=1)
        self._tell("300 newsletters enqueued at priority 1, one durable write")

    def _schedule_reports(self) -> None:
        # The second runs long enough to be cancelled while it runs, the third never starts.
        later = min(2.0, 0.15 * self._seconds)
        self._enqueue("report", {"pages": 5}, id="report-1", kind="monthly", delay=later)
        self._enqueue("report", {"pages": 600}, id="report-2", kind="monthly", delay=later)
        self._enqueue("report", {"pages": 5}, id="report-3", kind="monthly", delay=3600.0)
        self._tell(f"3 reports scheduled: two in {later:.1f} s, one in an hour")

    def _everyday(self) -> None:
        self._number += 1
        n = self._number
        for part in "abc":
            payload = {"to": f"user-{n}{part}@example.com", "fails": n % 3 if part == "a" else 0}
            self._enqueue("email", payload, id=f"welcome-{n}{part}", kind="welcome")
        for part in "ab":
            self._enqueue("image", {"file": f"{n}{part}.png"}, id=f"img-{n}{part}", kind="resize")
        self._enqueue("payment", {"amount": 10 + n}, id=f"pay-{n}", kind="charge")

    def _password_resets(self) -> None:
        for n in range(3):
            payload = {"to": f"urgent-{n}@example.com"}
            self._enqueue("email", payload, id=f"reset-{n}", kind="password-reset", priority=9)
        self._tell("3 password resets enqueued at priority 9: they overtake the newsletters")

    def _payments_before_the_bank_opens(self) -> None:
        wait = min(2.0, 0.15 * self._seconds)
        for n in range(3):
            payload = {"amount": 100, "bank_opens_at": time.time() + wait}
            self._enqueue("payment", payload, id=f"early-{n}", kind="charge")
        self._tell(f"3 payments come before the bank opens: they snooze for {wait:.1f} s")

    def _trouble(self) -> None:
        self._enqueue(
            "image",
            {"file": "cat.txt", "broken": 1},
            id="img-broken",
            kind="resize",
            max_attempts=3,
        )
        self._enqueue("image", {"hangs": 1}, id="scan-1", kind="scan")
        self._enqueue("payment", {"amount": 1, "stolen": 1}, id="pay-stolen", kind="charge")
        self._tell("a broken image, a scan that hangs, a stolen card")

    def _same_payment_again(self) -> None:
        before = self.ledger.duplicates
        for _ in range(3):
            self._enqueue("payment", {"amount": 11}, id="pay-1", kind="charge")
        refused = self.ledger.duplicates - before
        self._tell(f"pay-1 submitted 3 more times: {refused} times answered as known, charged once")

    def _cancel_reports(self) -> None:
        for id in ("report-2", "report-3"):
            with contextlib.suppress(JobNotFound):
                state = self._queues["report"].cancel(id, by="demo")
                how = "its handler is asked to stop" if state is State.PROCESSING else state
                self._tell(f"cancel {id}: {how}")

    def _photos(self) -> None:
        jobs = [
            NewJob({"file": f"photo-{n}.jpg", "takes": 0.2}, id=f"photo-{n}") for n in range(60)
        ]
        self._enqueue_many("image", jobs, kind="resize")
        self._tell("60 photos uploaded at once")

    def _kill_a_worker(self) -> None:
        """Take the one that holds the most, as bad luck does."""
        now = self._queues.info().now
        holds: dict[str, int] = {}
        pids: dict[str, int] = {}
        for name in QUEUES:
            for worker in self._queues[name].workers():
                if worker.expires_at > now:
                    id = worker.beat.id
                    holds[id] = holds.get(id, 0) + worker.holds
                    pids[id] = worker.beat.pid
        if not any(holds.values()):
            # The workers are still starting, or idle: bad luck waits for a better moment.
            if self._elapsed < 0.6 * self._seconds:
                self._script.insert(0, (self._elapsed + 0.05, self._kill_a_worker))
            return
        id = max(holds, key=lambda id: holds[id])
        with contextlib.suppress(ProcessLookupError):
            self.ledger.kills[id] = time.time()
            os.kill(pids[id], signal.SIGKILL)
            self._tell(f"kill -9 {pids[id]}: a worker with {holds[id]} jobs in hand")

    def _poison(self) -> None:
        self._enqueue("payment", {}, id="poison-1", kind="reconcile", priority=9)
        self._tell("a poison job: it kills every process that runs it, 2 attempts")

    # --- noting what was answered ---

    def _enqueue(self, queue: str, payload: Any, **options: Any) -> None:
        self.ledger.asked.add((queue, options["id"]))
        self._note(queue, self._queues[queue].enqueue(payload, **options))

    def _enqueue_many(self, queue: str, jobs: Sequence[NewJob[Any]], **options: Any) -> None:
        self.ledger.asked |= {(queue, job.options["id"]) for job in jobs}
        said: EnqueueOptions = options  # type: ignore[assignment]
        for answer in self._queues[queue].enqueue_many(jobs, **said):
            self._note(queue, answer)

    def _note(self, queue: str, answer: Enqueued) -> None:
        if isinstance(answer, Queued):
            self.ledger.accepted.add((queue, answer.id))
        else:
            self.ledger.duplicates += 1
