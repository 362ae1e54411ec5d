"""Waiting for results: one thread and one listener for all pending results of a queue."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Self

from ackline.core.errors import EventsDropped, JobNotFound, StoreForbidden, Timeout
from ackline.core.job import QueueKey, Record
from ackline.stores.contract import Completion, CompletionListener, Listener, Store

logger = logging.getLogger("ackline")

MAX_WAIT = 1.0
"""Notifications can be lost, so all pending jobs are looked up again after this many seconds."""

IDLE_TIMEOUT = 10.0
"""Seconds to keep listening after the last waiter has left: most callers soon wait again."""

ERROR_DELAY = 0.1
"""Seconds between retries while the store is down."""

MISSES_BEFORE_BATCHING = 8
BATCHING_DELAY = 0.002
"""After this many fruitless look-ups, batch notifications for this long."""

MAX_EARLY_COMPLETIONS = 64
"""How many completions to keep that nobody waits for yet: the job's producer may be about to."""

PAGE_SIZE = 500

MAX_DIRECT_LOOKUPS = 16
"""Up to this many jobs are all looked up; of more, only those that have ended by the journal."""


class PendingResult:
    """A job that somebody waits for."""

    def __init__(self, waiter: ResultWaiter, id: str, unique_id: bool = False) -> None:
        self.id = id
        self.unique_id = unique_id
        """Whether no other job has ever had this id: then every notification is about this job."""
        self.done = False
        """Whether the wait is over."""
        self._waiter = waiter
        self._ready: SimpleQueue[None] = SimpleQueue()
        self._record: Record | Completion | None = None
        self._error: BaseException | None = None
        self._callback: Callable[[], None] | None = None

    def set_result(
        self, record: Record | Completion | None, error: BaseException | None = None
    ) -> None:
        """The job has finished, is gone, or cannot be waited for."""
        self._record, self._error = record, error
        self.done = True
        self._ready.put(None)
        if self._callback is not None:
            try:
                self._callback()
            except Exception:
                logger.exception("the callback for the result of job %s failed", self.id)

    def on_done(self, callback: Callable[[], None]) -> None:
        """Call a function when the wait is over: in another thread, or now if it already is."""
        self._callback = callback
        if self.done:
            callback()

    def wait(self, timeout: float, *, now: bool = False) -> Record | Completion:
        """The finished job; `now` checks at once instead of waiting for a notification."""
        if now:
            self._waiter.check_now(self)
        if not self.done:
            with contextlib.suppress(Empty):
                self._ready.get(timeout=timeout)
        if not self.done:
            raise self.timeout(timeout)
        return self.record()

    def timeout(self, seconds: float) -> Timeout:
        """The error after waiting this long; its cause is the store's error, if there was one."""
        error = Timeout(
            f"job {self.id!r} is not finished after {seconds:g} s; the job was not cancelled"
        )
        error.__cause__ = self._waiter.last_error
        return error

    def record(self) -> Record | Completion:
        """The finished job, or the error."""
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
    """Subscribes before the first job is enqueued, then checks whenever some job has ended.

    If many jobs are pending, it looks up each when a caller starts to wait for it and when the
    journal says that it has ended; and all of them from time to time, as a journal is trimmed.
    """

    def __init__(self, store: Store, key: QueueKey) -> None:
        self.key = key
        self.closed = False
        self.wakeups = 0
        """How often it was woken by a notification; increased before anything is looked up."""
        self.last_error: Exception | None = None
        """The last error of the store; None once it can be read again."""
        self._pid = os.getpid()
        self._store = store
        self._listener: Listener | None = None
        self._completions: CompletionListener | None = None
        self._expected: dict[str, list[PendingResult]] = {}
        self._unchecked: set[str] = set()
        self._early: OrderedDict[str, Completion] = OrderedDict()
        """Completions that arrived before the job's producer started to wait."""
        self._lock = threading.Lock()
        self._has_waiters = threading.Event()
        """Set while the thread should listen; cleared some time after the last waiter has gone."""
        self._left_at = time.monotonic()
        self._checked_at = 0.0
        """When the last look-up was, or the first waiter came."""
        self._cursor: str | None = None
        self._check_all_at = 0.0
        self._reads_journal = True
        """Whether it may read the journal: over HTTP, a producer's token does not allow that."""
        self._misses = 0
        self._listen()
        self._thread = threading.Thread(target=self._run, name=f"results {key}", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether its thread runs: not once closed, nor in a process forked off this one."""
        return not self.closed and self._pid == os.getpid()

    def expect(self, id: str, since: int | None = None, unique_id: bool = False) -> PendingResult:
        """Start to wait for a job; use it in a `with`. `unique_id`: no other job ever had its id.

        `since` is the value of `wakeups` before the job was enqueued: a notification since then
        may have been about this job, so it is looked up immediately.
        """
        expected = PendingResult(self, id, unique_id)
        with self._lock:
            completion = self._early.pop(id, None)
            if completion is not None and unique_id:
                expected.set_result(completion)
                return expected
            if not self._expected:
                self._checked_at = time.monotonic()
            self._expected.setdefault(id, []).append(expected)
            self._unchecked.add(id)
            if not self._has_waiters.is_set():
                self._has_waiters.set()
        if since is not None and since != self.wakeups:
            self._wake()
        return expected

    def forget(self, expected: PendingResult) -> None:
        """Stop waiting for this result."""
        with self._lock:
            waiting = self._expected.get(expected.id, [])
            if expected in waiting:
                waiting.remove(expected)
            if not waiting:
                self._expected.pop(expected.id, None)
                self._unchecked.discard(expected.id)
            if not self._expected:
                self._left_at = time.monotonic()

    def check_now(self, expected: PendingResult) -> None:
        """Check whether a job has finished already."""
        record = self._store.get(self.key, [expected.id])[0]
        if record is None or record.state.terminal:
            expected.set_result(record)

    def close(self) -> None:
        """Stop; everyone who still waits gets a `Timeout`."""
        if self._pid != os.getpid():
            return  # after a fork, the thread and the waiters are the parent's
        with self._lock:
            self.closed = True
            self._has_waiters.set()
        self._wake()
        if self._thread is not threading.current_thread():
            self._thread.join(timeout=5)
        self._stop_listening()

    def _listen(self) -> None:
        listener = self._store.listen([self.key], "finished")
        with self._lock:
            if not self.closed:
                self._listener = listener
                self._completions = listener if isinstance(listener, CompletionListener) else None
                return
        listener.close()

    def _stop_listening(self) -> None:
        with self._lock:
            listener, self._listener, self._completions = self._listener, None, None
        if listener is not None:
            listener.close()

    def _wake(self) -> None:
        listener = self._listener
        if listener is not None:
            listener.wake()

    def _run(self) -> None:
        while not self.closed:
            try:
                if not self._expected:
                    self._stop_if_idle()
                if self._wait_for_notification():
                    self._check_pending()
                self.last_error = None
            except Exception as error:
                # If the thread ended, everyone who waits now or later would never get a result.
                self._back_off(error)
        closed = Timeout(f"queue {self.key} was closed while waiting for results")
        for waiting in self._waiting_for(None).values():
            self._deliver(waiting, None, closed)

    def _stop_if_idle(self) -> None:
        """Stop listening after `IDLE_TIMEOUT` seconds without a waiter, until there is one."""
        with self._lock:
            if self._expected or self.closed or time.monotonic() < self._left_at + IDLE_TIMEOUT:
                return
            self._has_waiters.clear()
        # A server would keep notifications that are not read here in its memory.
        self._stop_listening()
        self._cursor = None
        self._has_waiters.wait()

    def _wait_for_notification(self) -> bool:
        """Wait for a notification; returns whether there is something to look up now."""
        listener = self._listener
        if listener is None:
            self._listen()
        else:
            listener.wait(MAX_WAIT)
        self.wakeups += 1
        delivered, now = self._deliver_completions(), time.monotonic()
        if not self._expected or (delivered and now < self._checked_at + MAX_WAIT):
            return False
        if self._misses > MISSES_BEFORE_BATCHING:
            time.sleep(BATCHING_DELAY)
        self._misses += 1
        self._checked_at = now
        return True

    def _deliver_completions(self) -> bool:
        """Deliver received completions; returns whether nothing is left to look up."""
        completions = self._completions.completions() if self._completions is not None else None
        if completions is None:
            return False
        for completion in completions:
            with self._lock:
                waiting = tuple(self._expected.get(completion.id, ()))
                if not waiting:
                    self._keep_early(completion)
            for expected in waiting:
                if not expected.unique_id:
                    return False
                self._deliver((expected,), completion)
        return True

    def _keep_early(self, completion: Completion) -> None:
        self._early[completion.id] = completion
        if len(self._early) > MAX_EARLY_COMPLETIONS:
            self._early.popitem(last=False)

    def _back_off(self, error: Exception) -> None:
        if self.last_error is None:
            logger.warning("cannot read the results of %s; trying again", self.key, exc_info=error)
        self.last_error = error
        self._check_all_at = 0.0
        time.sleep(ERROR_DELAY)
        self._wake()

    def _check_pending(self) -> None:
        if len(self._expected) <= MAX_DIRECT_LOOKUPS or not self._reads_journal:
            self._check_ids(self._waiting_for(None))
            self._cursor = None
            return
        if self._cursor is None:
            self._cursor = self._store.info().cursor
            self._check_all_at = 0.0
        now = time.monotonic()
        if now >= self._check_all_at:
            self._check_ids(self._waiting_for(None))
            self._check_all_at = now + MAX_WAIT
            return
        with self._lock:
            unchecked, self._unchecked = self._unchecked, set()
        try:
            self._check_ids(self._waiting_for(unchecked | self._ended()))
        except EventsDropped:
            # The journal no longer has all of them: check every job, and continue from its end.
            self._cursor = None
            self._check_pending()
        except StoreForbidden:
            self._reads_journal = False
            self._check_pending()
        except BaseException:
            self._check_all_at = 0.0
            raise

    def _ended(self) -> set[str]:
        """The ids of the jobs that have ended or were deleted since the last check."""
        ended: set[str] = set()
        while True:
            events = self._store.events(self.key, self._cursor, PAGE_SIZE)
            ended.update(event.id for event in events if event.to is None or event.to.terminal)
            if events:
                self._cursor = events[-1].cursor
            if len(events) < PAGE_SIZE:
                return ended

    def _check_ids(self, expected: dict[str, tuple[PendingResult, ...]]) -> None:
        ids = list(expected)
        if not ids:
            return
        for id, record in zip(ids, self._store.get(self.key, ids), strict=True):
            if record is None or record.state.terminal:
                self._deliver(expected[id], record)

    def _waiting_for(self, ids: set[str] | None) -> dict[str, tuple[PendingResult, ...]]:
        # A copy: a caller that comes later may wait for a later job of the same id.
        with self._lock:
            waiting = self._expected if ids is None else self._expected.keys() & ids
            return {id: tuple(self._expected[id]) for id in waiting}

    def _deliver(
        self,
        waiting: tuple[PendingResult, ...],
        record: Record | Completion | None,
        error: BaseException | None = None,
    ) -> None:
        self._misses = 0
        for expected in waiting:
            # First this: waking the waiting thread takes a moment, in which the rest can be done.
            expected.set_result(record, error)
            self.forget(expected)
