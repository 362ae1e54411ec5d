"""Workers over HTTP run as usual, survive restarts of the service, and are refused if stale."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.harness.servers.ports import free_port
from tests.waiting import until

import ackline
from ackline.core.errors import LeaseLost
from ackline.core.job import State

SOURCE = Path(ackline.__file__).parents[1]
MANY = 10_000
SOME = 2_000


class Killable:
    """`ackline serve`, which can be killed and restarted on the same port."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[str] | None = None
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "ackline", "serve", "--port", str(self.port)]
        self._process = subprocess.Popen(
            command,
            cwd=self._folder,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
        )
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if "serving" in line:
                return
        raise AssertionError("the service did not start")

    def kill(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.communicate()


@pytest.fixture
def service_process(tmp_path: Path) -> Iterator[Killable]:
    running = Killable(tmp_path)
    yield running
    running.kill()


def completed(queue: ackline.Queue[Any, Any]) -> int:
    try:
        return queue.counts()[State.COMPLETED]
    except ackline.StoreUnavailable:
        return 0


def run_worker(
    queue: ackline.Queue[Any, Any], is_done: Callable[[], bool], seconds: float = 60.0
) -> None:
    worker = ackline.Worker(queue, concurrency=8)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        until(is_done, seconds)
    finally:
        worker.stop()
        thread.join(30)
    assert not thread.is_alive()


def test_a_worker_drains_ten_thousand_jobs(service):
    ran: Counter[int] = Counter()
    with ackline.open(service.url) as queues:
        queue = queues["numbers"]

        @queue.handler("number")
        def handle(job):
            ran[job.payload] += 1
            return job.payload

        queue.enqueue_many(range(MANY), kind="number")
        run_worker(queue, lambda: len(ran) == MANY)

        assert ran == Counter(range(MANY))
        assert queue.counts()[State.COMPLETED] == MANY


def test_a_call_is_answered_by_a_worker_elsewhere(service):
    with ackline.open(service.url) as here, ackline.open(service.url) as there:
        there["math"].handler("double")(lambda job: 2 * job.payload)
        asked: list[int] = []

        def ask() -> None:
            asked.append(here["math"].enqueue_and_wait(21, kind="double", timeout=20))

        thread = threading.Thread(target=ask)
        thread.start()
        run_worker(there["math"], lambda: bool(asked))
        thread.join()

    assert asked == [42]


def test_a_worker_survives_a_killed_service_and_nothing_is_lost(service_process):
    ran: Counter[int] = Counter()
    with ackline.open(service_process.url) as queues:
        queue = queues["numbers"]
        accepted = [queue.enqueue(n, id=str(n), kind="number").id for n in range(50)]
        accepted += [
            one.id
            for one in queue.enqueue_many(
                ackline.NewJob(n, id=str(n), kind="number") for n in range(50, SOME)
            )
        ]

        @queue.handler("number", lease=2.0, max_attempts=20)
        def handle(job):
            ran[job.payload] += 1
            time.sleep(0.001)

        killed = threading.Event()

        def kill_once_and_restart() -> None:
            until(lambda: len(ran) >= SOME // 4, 60.0)
            service_process.kill()
            killed.set()
            time.sleep(0.5)
            service_process.start()

        killer = threading.Thread(target=kill_once_and_restart)
        killer.start()
        # Not when all have run: the outcome of some came after their lease had lapsed.
        run_worker(queue, lambda: killed.is_set() and completed(queue) == SOME)
        killer.join()

        assert sorted(accepted, key=int) == [str(n) for n in range(SOME)]
        assert set(ran) == set(range(SOME))
        counts = queue.counts()
        assert counts[State.COMPLETED] == SOME
        # Only jobs that were running when the service was killed may have run twice.
        assert sum(ran.values()) - SOME <= 8 * 200


def test_a_stale_lease_is_refused_after_a_restart(service_process):
    with ackline.open(service_process.url) as queues:
        queue = queues["work"]
        queue.enqueue(1, id="a")
        [stale] = queue.claim(1, lease=0.2, worker="slow")
        service_process.kill()
        service_process.start()
        [live] = queue.claim(1, lease=30, wait=20, worker="other")

        with pytest.raises(LeaseLost):
            queue.complete(stale, "late")
        queue.complete(live, "in time")

        assert queue.result("a") == "in time"
