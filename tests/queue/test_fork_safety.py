"""A child that was forked while other threads of its parent were busy can use the same queue."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest

from ackline import Queues
from ackline.core.fork_safety import renew_locks_after_fork
from ackline.core.job import QueueKey, State
from ackline.core.lifecycle import Verdict
from ackline.queue import RecoveredBy, StopReason
from ackline.queue.drafts.bloom_filter import RotatingBloomFilter
from ackline.queue.job import Signal
from ackline.queue.metadata.recovery_counts import RecoveryCounts

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


class Busy:
    """A thread that is in the middle of something when its process is forked."""

    def __init__(self) -> None:
        self._began = threading.Event()
        self._may_end = threading.Event()

    def pause(self) -> None:
        """In the middle of it: stay here until the child has ended."""
        self._began.set()
        self._may_end.wait(10)

    def fork(self, something: Callable[[], object], work: Callable[[], bool]) -> int:
        """How a child ends that is forked then and does the work."""
        thread = threading.Thread(target=something)
        thread.start()
        assert self._began.wait(10)
        child = os.fork()
        if child == 0:
            signal.alarm(5)
            try:
                os._exit(0 if work() else 1)
            finally:
                os._exit(2)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        self._may_end.set()
        thread.join(10)
        return code


class Owner:
    """Has a lock, and holds it while somebody is busy."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def hold(self, busy: Busy) -> None:
        with self.lock:
            busy.pause()

    def can_take(self) -> bool:
        return self.lock.acquire(timeout=0.2)


def test_a_lock_is_free_in_the_child_only_if_it_is_renewed() -> None:
    kept, renewed = Owner(), Owner()
    renew_locks_after_fork(renewed, "lock")
    busy = Busy()
    assert busy.fork(lambda: renewed.hold(busy), renewed.can_take) == 0
    busy = Busy()
    assert busy.fork(lambda: kept.hold(busy), kept.can_take) == 1


def test_settings_that_were_being_read(queues: Queues, monkeypatch: pytest.MonkeyPatch) -> None:
    queue, describe, busy = queues["email"], queues.store.describe, Busy()

    def slow(tenant: str | None, name: str | None = None) -> Any:
        busy.pause()
        return describe(tenant, name)

    monkeypatch.setattr(queues.store, "describe", slow)

    def work() -> bool:
        monkeypatch.setattr(queues.store, "describe", describe)
        queues.store.open()
        return queue.policies.settings(max_age=0) is not None

    assert busy.fork(lambda: queue.policies.settings(max_age=0), work) == 0


def test_an_id_that_was_being_remembered() -> None:
    parent, busy = os.getpid(), Busy()

    def now() -> float:
        if os.getpid() == parent and threading.current_thread() is not threading.main_thread():
            busy.pause()
        return 0.0

    bloom = RotatingBloomFilter(capacity=10, now=now)
    assert busy.fork(lambda: bloom.add("a"), lambda: bloom.add("b")) == 0


def test_what_the_parent_took_back_is_counted_by_the_parent() -> None:
    no_store: Any = None
    counts, busy = RecoveryCounts(no_store, QueueKey("default", "email")), Busy()
    counts.add(RecoveredBy.CLAIM, [Verdict(True, State.QUEUED)])

    def save_nothing() -> bool:
        counts.save()
        return True

    assert busy.fork(busy.pause, save_nothing) == 0
    with pytest.raises(AttributeError):
        counts.save()


def test_a_signal_that_was_being_set() -> None:
    busy = Busy()

    class Reason(Signal):
        """It is in the middle of being set."""

        def __setattr__(self, name: str, value: object) -> None:
            if name == "reason" and value is not None:
                busy.pause()
            super().__setattr__(name, value)

    def set_another() -> bool:
        other = Signal()
        other.set(StopReason.TIMEOUT)
        return other.is_set()

    assert busy.fork(lambda: Reason().set(StopReason.TIMEOUT), set_another) == 0
