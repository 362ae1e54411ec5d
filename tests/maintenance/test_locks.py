"""In a fleet, one process at a time promotes, sweeps and prunes a queue; another takes over."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from types import SimpleNamespace
from typing import Any

import pytest

import ackline
from ackline import Queue, Queues, State
from ackline.core.reserved_keys import KeyFamily, reserved_key
from ackline.maintenance import Maintenance, MaintenanceLoop, Promoter, Pruner, Reaper
from ackline.maintenance.locks import MaintenanceLocks, decode_lock
from ackline.stores.contract import Store
from ackline.stores.memory import MemoryStore
from ackline.testing import ManualClock
from tests.waiting import until

EVERY = 10.0


def every(*queues: Queue[Any, Any]) -> dict[Queue[Any, Any], float]:
    return dict.fromkeys(queues, EVERY)


@pytest.mark.every_store
class TestLocks:
    def test_one_process_has_a_queue_until_an_interval_after_its_last_run(
        self, queues: Queues, clock: ManualClock
    ) -> None:
        queue = queues["email"]
        first, second = MaintenanceLocks("sweep"), MaintenanceLocks("sweep")
        assert first.acquire(every(queue)) == [queue]
        clock.advance(EVERY / 2)
        assert second.acquire(every(queue)) == []
        assert first.acquire(every(queue)) == [queue]
        clock.advance(EVERY - 0.001)
        assert second.acquire(every(queue)) == []
        clock.advance(0.001)
        assert second.acquire(every(queue)) == [queue]
        assert first.acquire(every(queue)) == []

    def test_queues_loops_and_tenants_have_separate_locks(self, queues: Queues) -> None:
        email, image = queues["email"], queues["image"]
        same_name = Queues(queues.store, "acme")["email"]
        first, second = MaintenanceLocks("sweep"), MaintenanceLocks("sweep")
        assert first.acquire(every(email)) == [email]

        assert second.acquire(every(email, image, same_name)) == [image, same_name]
        assert MaintenanceLocks("prune").acquire(every(email)) == [email]

    def test_of_many_concurrent_processes_one_gets_each_queue(self, queues: Queues) -> None:
        wanted = every(*(queues[f"queue-{number}"] for number in range(5)))
        together = Barrier(8)

        def acquire(_number: int) -> list[str]:
            locks = MaintenanceLocks("sweep")
            together.wait()
            return [queue.name for queue in locks.acquire(wanted)]

        with ThreadPoolExecutor(8) as threads:
            acquired = Counter(name for names in threads.map(acquire, range(8)) for name in names)

        assert acquired == {f"queue-{number}": 1 for number in range(5)}

    def test_a_clock_set_back_frees_all_locks(self, queues: Queues, clock: ManualClock) -> None:
        assert MaintenanceLocks("sweep").acquire(every(queues["email"]))
        clock.advance(-3600.0)

        assert MaintenanceLocks("sweep").acquire(every(queues["email"]))


def test_each_process_uses_its_own_interval(queues: Queues, clock: ManualClock) -> None:
    """Maintaining a queue once an hour does not stop others from doing so more often."""
    queue = queues["email"]
    assert MaintenanceLocks("prune").acquire({queue: 3600.0}) == [queue]
    clock.advance(EVERY)

    assert MaintenanceLocks("prune").acquire({queue: EVERY}) == [queue]


def test_locks_beyond_one_page_are_found(
    queues: Queues, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ackline.maintenance.locks.LOOKUP_BATCH", 3)
    monkeypatch.setattr("ackline.maintenance.locks.LOCK_BATCH", 4)
    wanted = every(*(queues[f"queue-{number}"] for number in range(10)))
    assert len(MaintenanceLocks("sweep").acquire(wanted)) == 10

    assert MaintenanceLocks("sweep").acquire(wanted) == []
    clock.advance(EVERY)
    assert len(MaintenanceLocks("sweep").acquire(wanted)) == 10


def test_a_lock_that_another_process_acquires_meanwhile_is_left_to_it(
    queues: Queues, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, first, second = queues["email"], MaintenanceLocks("sweep"), MaintenanceLocks("sweep")
    read = queue.store.read_keys

    def read_and_be_late(*given: Any, **more: Any) -> Any:
        found = read(*given, **more)
        monkeypatch.undo()
        assert first.acquire(every(queue)) == [queue]
        return found

    monkeypatch.setattr(queue.store, "read_keys", read_and_be_late)

    assert second.acquire(every(queue)) == []


def test_two_objects_for_one_queue_are_one_queue(queues: Queues) -> None:
    one, other = queues.queue("email"), queues.queue("email")

    assert MaintenanceLocks("sweep").acquire(every(one, other)) == [one, other]


def test_a_forked_child_is_another_process(queues: Queues, monkeypatch: pytest.MonkeyPatch) -> None:
    locks = MaintenanceLocks("sweep")
    assert locks.acquire(every(queues["email"]))
    # Of the locks alone: a store would take its own connections for another process's.
    monkeypatch.setattr("ackline.maintenance.locks.os", SimpleNamespace(getpid=lambda: 1))

    assert locks.acquire(every(queues["email"])) == []


def test_a_dropped_queue_leaves_no_lock(queues: Queues) -> None:
    queues["email"].enqueue(1)
    MaintenanceLocks("sweep").acquire(every(queues["email"]))
    queues["email"].drop(force=True)

    assert queues.store.read_keys("default", reserved_key(KeyFamily.MAINTENANCE), 10) == []


class CountingStore(MemoryStore):
    """Counts the calls of some verbs, by queue."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.calls: Counter[str] = Counter()

    def __getattribute__(self, name: str) -> Any:
        if name in vars(Store) and not name.startswith("_") and name != "capabilities":
            self.calls[name] += 1
        return super().__getattribute__(name)


class NoLocks(MaintenanceLocks):
    """The control: each process believes that it is alone."""

    def acquire(self, every: Any) -> list[Queue[Any, Any]]:
        return list(every)


class TestManyProcesses:
    """Many processes maintain the same queues, as their workers do."""

    QUEUES, PROCESSES = 5, 20

    @pytest.fixture
    def store(self, clock: ManualClock) -> CountingStore:
        return CountingStore(clock)

    @pytest.fixture
    def queues(self, store: CountingStore) -> list[Queue[Any, Any]]:
        opened = Queues(store)
        return [opened[f"queue-{number}"] for number in range(self.QUEUES)]

    def fleet(self, queues: list[Queue[Any, Any]]) -> list[Maintenance]:
        return [Maintenance(queues) for _ in range(self.PROCESSES)]

    def calls_of_a_round(self, store: CountingStore, fleet: list[Maintenance]) -> Counter[str]:
        store.calls.clear()
        for maintenance in fleet:
            for loop in maintenance.loops:
                if isinstance(loop, (Promoter, Reaper)):
                    loop.step()
        return Counter(store.calls)

    def test_idle_queues_are_checked_in_one_call_without_writes(
        self, store: CountingStore, queues: list[Queue[Any, Any]]
    ) -> None:
        fleet = self.fleet(queues)

        assert self.calls_of_a_round(store, fleet) == {"next_due": 2 * self.PROCESSES}

    @pytest.mark.parametrize("locked", [True, False])
    def test_each_queue_is_swept_once_in_an_interval(
        self,
        store: CountingStore,
        queues: list[Queue[Any, Any]],
        clock: ManualClock,
        monkeypatch: pytest.MonkeyPatch,
        locked: bool,
    ) -> None:
        """The control, without locks, sweeps once for each process."""
        if not locked:
            monkeypatch.setattr("ackline.maintenance.loop.MaintenanceLocks", NoLocks)
        fleet = self.fleet(queues)
        for queue in queues:
            queue.enqueue(1)
            queue.claim(lease=300.0)
        self.calls_of_a_round(store, fleet)
        for _ in range(3):
            clock.advance(0.9)

            sweeps = self.calls_of_a_round(store, fleet)["workers"]

            assert sweeps == self.QUEUES * (1 if locked else self.PROCESSES)

    @pytest.mark.parametrize("locked", [True, False])
    def test_each_queue_is_pruned_once_in_an_interval(
        self,
        store: CountingStore,
        queues: list[Queue[Any, Any]],
        monkeypatch: pytest.MonkeyPatch,
        locked: bool,
    ) -> None:
        if not locked:
            monkeypatch.setattr("ackline.maintenance.loop.MaintenanceLocks", NoLocks)
        pruners = [Pruner(queues, 30.0) for _ in range(self.PROCESSES)]
        for pruner in pruners:
            pruner.step()

        assert store.calls["prune"] == self.QUEUES * (1 if locked else self.PROCESSES)

    def test_a_queue_that_fails_in_one_process_is_left_to_another(
        self, queues: list[Queue[Any, Any]], clock: ManualClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A process that fails for a queue rests, and does not renew its lock meanwhile."""
        monkeypatch.setattr("ackline.maintenance.queue_backoff.RETRY_DELAYS", (3600.0, 3600.0))
        failing, well = Failing(queues, 0.01), Failing(queues, 1.0, fails=False)
        failing.start()
        until(lambda: failing.stats().failures)
        assert well.step_seen() == []
        clock.advance(1.0)
        rounds = failing.stats().runs
        until(lambda: failing.stats().runs > rounds + 1)

        assert well.step_seen() == [queue.name for queue in queues]
        failing.stop()


class Failing(MaintenanceLoop):
    name = "failing loop"
    lock_name = "fail"

    def __init__(
        self, queues: list[Queue[Any, Any]], interval: float, *, fails: bool = True
    ) -> None:
        super().__init__(queues, interval)
        self._fails = fails
        self._seen: list[str] = []

    def step_seen(self) -> list[str]:
        self._seen.clear()
        self.step()
        return list(self._seen)

    def maintain(self, queue: Queue[Any, Any]) -> float:
        if self._fails:
            raise RuntimeError("it cannot")
        self._seen.append(queue.name)
        return 1.0


class TestDeadHolder:
    """A dead process delays maintenance by at most one interval."""

    def test_by_the_clock(self, queues: Queues, clock: ManualClock) -> None:
        queue = queues["email"]
        queue.enqueue(0, delay=0.0)
        dead, other = Maintenance([queue]), Maintenance([queue])
        queue.enqueue(1, id="first", delay=1.0)
        clock.advance(1.0)
        dead.step()
        assert queue.counts()[State.QUEUED] == 2
        queue.enqueue(2, id="second", delay=0.001)
        clock.advance(0.999)
        other.step()
        assert queue.counts()[State.QUEUED] == 2
        clock.advance(0.001)

        other.step()

        assert queue.counts()[State.QUEUED] == 3

    @pytest.mark.parametrize("store_name", ["sqlite", "redis", "postgres"])
    def test_when_killed(self, store_url: str) -> None:
        with ackline.open(store_url) as opened, processes(store_url, 3) as running:
            queue = opened["email"]
            queue.enqueue(1, id="held")
            queue.claim(lease=60.0)
            killed = until(lambda: holder_of(queue, "sweep"), 60.0)
            os.kill(killed, signal.SIGKILL)
            running.pop(killed).communicate()

            queue.enqueue(3, id="lapses")
            [lapses] = queue.claim(lease=0.05)
            assert lapses.id == "lapses"
            # After the claim, which would promote it itself if it was due by then.
            queue.enqueue(2, id="due", delay=0.05)
            began = time.monotonic()
            until(lambda: queue.counts()[State.QUEUED] == 2, 60.0)

            assert holder_of(queue, "sweep") in running
            assert holder_of(queue, "promote") in running
            # Its last run was at most an interval before, and each of the others checks once in
            # an interval; the rest is what a busy machine takes.
            assert time.monotonic() - began < 2 * REAL_INTERVAL + 5.0


REAL_INTERVAL = 1.0

MAINTAIN = """
import sys
import ackline
from ackline.maintenance import Maintenance

with ackline.open(sys.argv[1]) as queues, Maintenance([queues["email"]]):
    sys.stdin.read()
"""


@contextlib.contextmanager
def processes(url: str, count: int) -> Iterator[dict[int, subprocess.Popen[bytes]]]:
    """Processes that maintain a queue, by their ids."""
    command = [sys.executable, "-c", MAINTAIN, url]
    started = [subprocess.Popen(command, stdin=subprocess.PIPE) for _ in range(count)]
    running = {process.pid: process for process in started}
    try:
        yield running
    finally:
        for process in running.values():
            process.communicate(timeout=60.0)


def holder_of(queue: Queue[Any, Any], duty: str) -> int:
    """The process that has run the maintenance last; 0 if none has yet."""
    key = reserved_key(KeyFamily.MAINTENANCE, queue.name, duty)
    found = queue.store.read_keys(queue.key.tenant, key, 1)
    return int(decode_lock(found[0].value).owner.split()[1]) if found else 0
