"""Waiting for results: one thread and one listener for all that a process expects of a queue."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Self

from ackline.errors import JobNotFound, Timeout
from ackline.job import QueueKey, Record
from ackline.stores.base import Store

LONGEST_WAIT = 1.0
"""News can be lost; so look again after this many seconds without any."""


class Expected:
    """A job that somebody waits for."""

    def __init__(self, waiter: ResultWaiter, id: str) -> None:
        self.id = id
        self._waiter = waiter
        self._arrived = threading.Event()
        self._record: Record | None = None
        self._error: BaseException | None = None
        self._callback: Callable[[], None] | None = None

    def arrive(self, record: Record | None, error: BaseException | None = None) -> None:
        """The job has finished, is gone, or cannot be waited for."""
        self._record, self._error = record, error
        self._arrived.set()
        if self._callback is not None:
            self._callback()

    @property
    def arrived(self) -> bool:
        """Whether the wait is over."""
        return self._arrived.is_set()

    def then(self, callback: Callable[[], None]) -> None:
        """Call this, in another thread, when the wait is over."""
        self._callback = callback
        if self._arrived.is_set():
            callback()

    def wait(self, timeout: float, *, now: bool = False) -> Record:
        """The finished job; `now` looks at once instead of waiting for news first."""
        if now:
            self._waiter.look(self)
        elif not self._arrived.is_set():
            self._waiter.look_soon()
        if not self._arrived.wait(timeout):
            raise Timeout(f"job {self.id!r} is not finished after {timeout:g} s; it was left alone")
        return self.record()

    def record(self) -> Record:
        """What arrived."""
        if self._error is not None:
            raise self._error
        if self._record is None:
            raise JobNotFound(self._waiter.key.name, self.id)
        return self._record

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._waiter.forget(self)


class ResultWaiter:
    """Subscribes before the first job is enqueued, then looks whenever something changed."""

    def __init__(self, store: Store, key: QueueKey) -> None:
        self.key = key
        self._store = store
        self._listener = store.listen([key], "changes")
        self._expected: dict[str, list[Expected]] = {}
        self._lock = threading.Lock()
        self._someone_waits = threading.Event()
        self.closed = False
        self._thread = threading.Thread(target=self._run, name=f"results {key}", daemon=True)
        self._thread.start()

    def expect(self, id: str) -> Expected:
        """Start to wait for a job; use it in a `with` block."""
        expected = Expected(self, id)
        with self._lock:
            self._expected.setdefault(id, []).append(expected)
            self._someone_waits.set()
        return expected

    def forget(self, expected: Expected) -> None:
        """Nobody waits for this any more."""
        with self._lock:
            waiting = self._expected.get(expected.id, [])
            if expected in waiting:
                waiting.remove(expected)
            if not waiting:
                self._expected.pop(expected.id, None)
            if not self._expected and not self.closed:
                self._someone_waits.clear()

    def look(self, expected: Expected) -> None:
        """See whether a job has finished already."""
        record = self._store.get(self.key, [expected.id])[0]
        if record is None or record.state.terminal:
            expected.arrive(record)

    def look_soon(self) -> None:
        """Have the thread look once more: the news may have come before the wait began."""
        self._listener.wake()

    def close(self) -> None:
        """Tell everyone who still waits that no answer will come."""
        self.closed = True
        self._someone_waits.set()
        self._listener.wake()
        if self._thread is not threading.current_thread():
            self._thread.join(timeout=5)
        self._listener.close()

    def _run(self) -> None:
        while not self.closed:
            self._someone_waits.wait()
            self._listener.wait(LONGEST_WAIT)
            try:
                self._look_at_all()
            except Exception as error:
                self._fail_all(error)
        self._fail_all(Timeout(f"queue {self.key} was closed while waiting for results"))

    def _look_at_all(self) -> None:
        expected = self._all_expected()
        ids = list(expected)
        if not ids:
            return
        for id, record in zip(ids, self._store.get(self.key, ids), strict=True):
            if record is None or record.state.terminal:
                self._arrive(expected[id], record)

    def _all_expected(self) -> dict[str, tuple[Expected, ...]]:
        # Those who come later may wait for a later job of the same id.
        with self._lock:
            return {id: tuple(waiting) for id, waiting in self._expected.items()}

    def _arrive(
        self,
        waiting: tuple[Expected, ...],
        record: Record | None,
        error: BaseException | None = None,
    ) -> None:
        for expected in waiting:
            self.forget(expected)
            expected.arrive(record, error)

    def _fail_all(self, error: BaseException) -> None:
        for waiting in self._all_expected().values():
            self._arrive(waiting, None, error)
        # Do not spin on a store that is down.
        if not self.closed:
            time.sleep(0.1)
