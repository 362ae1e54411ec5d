"""Half an hour in the life of a shop, by a clock that is moved by hand: the same each time."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from ackline.core.clock import ManualClock
from ackline.core.config import DEFAULTS
from ackline.core.lifecycle import complete
from ackline.queue import NewJob, Queue
from ackline.queues import Queues
from ackline.stores.contract import Heartbeat, Store

MINUTES = 30
STEP = 10.0

ERRORS: tuple[tuple[type[Exception], str], ...] = (
    (ConnectionError, "smtp.example.com:587 refused the connection"),
    (KeyError, "no customer {}"),
    (TimeoutError, "no answer from payments within 10 s"),
)


HANDLER = compile(
    "def send(order):\n    deliver(order)\n\ndef deliver(order):\n    raise error\n\nsend(order)\n",
    "shop/tasks.py",
    "exec",
)
"""Its tracebacks are the same on every machine."""


def fail(queue: Queue[Any, Any], job: Any, number: int) -> None:
    """Fail a job with a traceback, as a handler would."""
    error_type, message = ERRORS[number % len(ERRORS)]
    try:
        exec(HANDLER, {"error": error_type(message.format(number)), "order": number})
    except Exception as error:
        traceback = error.__traceback__
        queue.fail(job, error.with_traceback(traceback.tb_next if traceback is not None else None))


class Shop:
    """Queues with different kinds of load."""

    def __init__(self, store: Store, clock: ManualClock) -> None:
        self.store = store
        self.clock = clock
        self.queues = Queues(store, "default")
        self._random = random.Random(7)
        self._numbers: Iterator[int] = iter(range(1, 1_000_000))

    def run(self) -> None:
        """Simulate everything up to now."""
        for step in range(int(MINUTES * 60 / STEP)):
            self._email(step)
            self._images(step)
            self.clock.advance(STEP)
        self._reports()
        self._invoices()
        self._start_jobs()

    def _email(self, step: int) -> None:
        queue = self.queues["email"]
        rate_factor = 1.4 if step % 60 < 25 else 0.8
        count = int(self._random.uniform(8, 16) * rate_factor)
        queue.enqueue_many([self._mail(next(self._numbers)) for _ in range(count)])
        claimed = queue.claim(self._random.randint(9, 15), worker="web-1-2210")
        bad = [job for job in claimed if self._random.random() < 0.012]
        for job in bad:
            fail(queue, job, self._random.randint(1, 90))
        done = [job for job in claimed if job not in bad]
        queue.apply([complete(job.record, b'{"accepted":true}', DEFAULTS) for job in done])

    def _mail(self, number: int) -> NewJob[Any]:
        payload = {"to": f"customer-{number}@example.com", "template": "order-shipped"}
        return NewJob(payload, id=f"mail-{number}", kind="send", max_attempts=1)

    def _images(self, step: int) -> None:
        queue = self.queues["images"]
        if step % 4 == 0:
            for _ in range(self._random.randint(1, 6)):
                number = next(self._numbers)
                payload = {"file": f"products/{number}.png", "width": 640, "height": 480}
                queue.enqueue(payload, id=f"resize-{number}", kind="resize", priority=step % 3 + 4)
        for job in queue.claim(self._random.randint(0, 2), lease=30, worker="gpu-1-4180"):
            queue.complete(job, {"bytes": self._random.randint(9_000, 90_000)})

    def _reports(self) -> None:
        queue = self.queues["reports"]
        for hour in range(8):
            queue.enqueue(
                {"hour": hour}, id=f"hourly-{hour}", kind="hourly", delay=3600 * (hour + 1)
            )
        queue.pause(by="ops")

    def _invoices(self) -> None:
        queue = self.queues["invoices"]
        for number in range(5):
            queue.enqueue({"order": 4000 + number}, id=f"invoice-{number}", backoff=[120, 600])
        for job in queue.claim(2, worker="web-1-2210"):
            fail(queue, job, 2)

    def _start_jobs(self) -> None:
        """Workers with running jobs."""
        images = self.queues["images"]
        for number, lease in enumerate((28.0, 17.0, 9.0, 300.0)):
            worker = f"gpu-{number % 2 + 1}-418{number % 2}"
            images.claim(1, lease=lease, worker=worker)
            self._send_heartbeat("images", worker, 4)
        self.queues["email"].claim(2, lease=26.0, worker="web-1-2210")
        self._send_heartbeat("email", "web-1-2210", 16)

    def _send_heartbeat(self, queue: str, worker: str, concurrency: int) -> None:
        host, _, pid = worker.rpartition("-")
        heartbeat = Heartbeat(
            id=worker,
            host=host,
            pid=int(pid),
            started_at=self.clock.now() - 5000,
            concurrency=concurrency,
            kinds=None,
            ttl=60.0,
        )
        self.store.heartbeat(self.queues[queue].key, heartbeat, [])
