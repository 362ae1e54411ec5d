"""A job as handlers and callers get it."""

from __future__ import annotations

import datetime
import enum
import inspect
import logging
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, overload

from ackline.core.errors import InvalidOption, Stopped
from ackline.core.events import Act
from ackline.core.fork_safety import renew_locks_after_fork
from ackline.core.job import CORRELATION_TAG, Failure, Record, State
from ackline.core.limits import Seconds, as_seconds

if TYPE_CHECKING:
    from ackline.queue.policies import Policies
    from ackline.queue.serdes import Serdes
    from ackline.queue.transactions import AsyncTransaction, BlockingTransaction

if TYPE_CHECKING:
    # A bare `Job` is a Job[Any]; Python 3.11 cannot say so at run time.
    from typing_extensions import TypeVar as TypeVarWithDefault

    P = TypeVarWithDefault("P", default=Any)
else:
    P = TypeVar("P")

logger = logging.getLogger("ackline")

NO_RESOURCES: Mapping[str, Any] = MappingProxyType({})

_UNDECODED: Any = object()
_signal_lock = threading.Lock()
"""Locked while a signal is created or set; all jobs share it, because that takes no time."""
renew_locks_after_fork(sys.modules[__name__], "_signal_lock")


class StopReason(enum.StrEnum):
    """Why a handler should stop."""

    LEASE_LOST = "lease lost"
    CANCEL_REQUESTED = "cancel requested"
    TIMEOUT = "timeout"
    WORKER_STOPS = "worker stops"


class Signal:
    """Tells a handler to stop: its lease is lost, a cancel was requested, or time is up.

    Check it between steps (`if job.signal.is_set(): …`), or wait on it instead of sleeping.
    """

    def __init__(self) -> None:
        self._event = threading.Event()
        self._callbacks: list[Callable[[], None]] = []
        self.reason: StopReason | None = None

    def is_set(self) -> bool:
        """Whether the handler should stop."""
        return self._event.is_set()

    def raise_if_set(self) -> None:
        """Raise if the handler should stop; the reason decides what becomes of the job.

        It is released when the worker stops, cancelled when a cancel was requested, failed at a
        timeout; after a lost lease, nothing more is reported.
        """
        if self._event.is_set():
            raise Stopped(f"the handler was asked to stop: {self.reason}")

    def wait(self, timeout: Seconds | None = None) -> bool:
        """Block until it is set (True) or the time is up (False)."""
        return self._event.wait(as_seconds(timeout))

    def set(self, reason: StopReason) -> None:
        """Tell the handler to stop; called by the worker."""
        with _signal_lock:
            if self._event.is_set():
                return
            self.reason = reason
            self._event.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            try:
                callback()
            except Exception:
                logger.exception("a callback for a signal to stop failed")

    def on_set(self, callback: Callable[[], None]) -> None:
        """Register a function to call when the signal is set, in the thread that sets it."""
        with _signal_lock:
            if not self._event.is_set():
                self._callbacks.append(callback)
                return
        callback()


class OwningQueue(Protocol):
    """What a job needs from the queue that it came from."""

    @property
    def name(self) -> str: ...

    @property
    def serdes(self) -> Serdes[Any]: ...

    @property
    def policies(self) -> Policies: ...

    def complete(
        self, job: Job[Any], result: Any = None, *, connection: object | None = None
    ) -> None: ...

    async def complete_async(
        self, job: Job[Any], result: Any, connection: AsyncTransaction
    ) -> None: ...

    def extend(self, job: Job[Any], seconds: Seconds) -> None: ...

    def report(self, job: Job[Any], progress: Any) -> None: ...


class Job(Generic[P]):
    """One job: its payload and options, its state and, when claimed, its lease.

    >>> def handler(job: Job[dict[str, str]]) -> str:
    ...     return job.payload["to"]
    """

    __slots__ = (
        "_payload",
        "_payload_type",
        "_queue",
        "_signal",
        "exception",
        "record",
        "resources",
        "settled_in_transaction",
    )

    def __init__(
        self,
        record: Record,
        queue: OwningQueue,
        payload_type: Any,
        resources: Mapping[str, Any] = NO_RESOURCES,
    ) -> None:
        self.record = record
        self.resources = resources
        """What the worker's lifespan has opened, by name."""
        self._queue = queue
        self._payload_type = payload_type
        self._payload: Any = _UNDECODED
        self._signal: Signal | None = None
        self.exception: BaseException | None = None
        """Why its attempt fails, from when its handler has ended until this is logged."""
        self.settled_in_transaction: Act | None = None
        """The act that settled it in a caller's transaction, which may still be open."""

    @property
    def id(self) -> str:
        """The id that it was enqueued under."""
        return self.record.id

    @property
    def kind(self) -> str:
        """Which handler runs it."""
        return self.record.kind

    @property
    def queue(self) -> str:
        """The name of its queue."""
        return self._queue.name

    @property
    def state(self) -> State:
        """Its state when it was read."""
        return self.record.state

    @property
    def payload(self) -> P:
        """The payload, decoded into the declared type on first access."""
        if self._payload is _UNDECODED:
            self._payload = self._queue.serdes.decode_payload(self.record, self._payload_type)
        payload: P = self._payload
        return payload

    @property
    def attempt(self) -> int:
        """The number of this attempt: the first is 1, and 0 is a job that has not run yet."""
        return self.record.attempts

    @property
    def max_attempts(self) -> int:
        """After how many failed attempts it goes to the DLQ: its own, its kind's or its queue's."""
        return self._queue.policies.of(self.record).max_attempts

    @property
    def created_at(self) -> datetime.datetime:
        """When it was enqueued, in UTC as all its times."""
        return _utc(self.record.created_at)

    @property
    def started_at(self) -> datetime.datetime | None:
        """When the last attempt was claimed; None before the first."""
        return _optional_utc(self.record.started_at)

    @property
    def finished_at(self) -> datetime.datetime | None:
        """When it completed, failed for good or was cancelled."""
        return _optional_utc(self.record.finished_at)

    @property
    def deadline(self) -> datetime.datetime | None:
        """When its lease ends, as of when the job was read; a worker's heartbeats extend it."""
        return _optional_utc(self.record.deadline)

    @property
    def priority(self) -> int:
        """0 (lowest) to 9 (highest)."""
        return self.record.priority

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers that the producer set beside the payload."""
        return self.record.options.headers

    @property
    def tags(self) -> tuple[str, ...]:
        """Its tags, sorted; jobs can be listed by them."""
        return self.record.options.tags

    @property
    def correlation_id(self) -> str | None:
        """The id that its producer gave to all jobs that belong together, if it did."""
        own = (tag for tag in self.tags if tag.startswith(CORRELATION_TAG))
        return next((tag.removeprefix(CORRELATION_TAG) for tag in own), None)

    @property
    def trace(self) -> str | None:
        """The producer's trace context, to be continued by the handler."""
        return self.record.options.trace

    @property
    def history(self) -> tuple[Failure, ...]:
        """The attempts that did not complete; only on a job that was looked up."""
        return self.record.history

    @property
    def progress(self) -> Any:
        """What `report` has last reported, or None; only on a job that was looked up."""
        return self._queue.serdes.decode_progress(self.record)

    @property
    def result(self) -> Any:
        """The result of a completed job; only on a job that was looked up."""
        return self._queue.serdes.decode_result(self.record.result)

    @property
    def error(self) -> Failure | None:
        """The last error; only on a job that was looked up."""
        return self.record.failure

    @property
    def signal(self) -> Signal:
        """Set when the handler should stop."""
        signal = self._signal
        if signal is None:
            with _signal_lock:  # its handler and the heartbeat may need it at the same time
                signal = self._signal = self._signal or Signal()
        return signal

    @overload
    def complete(self, result: Any = None, *, connection: AsyncTransaction) -> Awaitable[None]: ...

    @overload
    def complete(self, result: Any = None, *, connection: BlockingTransaction) -> None: ...

    def complete(self, result: Any = None, *, connection: Any) -> Awaitable[None] | None:
        """Complete the job in your open transaction: your commit completes it.

        Await it if the connection is one of asyncio. Raises `LeaseLost`, and changes nothing, if
        the lease is not yours. What the handler returns no longer matters; if you do not
        commit, the attempt has failed.

        >>> with pool.connection() as tx:  # doctest: +SKIP
        ...     tx.execute("UPDATE account SET …")
        ...     job.complete({"paid": True}, connection=tx)
        """
        if inspect.iscoroutinefunction(getattr(connection, "commit", None)):
            return self._queue.complete_async(self, result, connection)
        self._queue.complete(self, result, connection=connection)
        return None

    def extend(self, seconds: Seconds) -> None:
        """Extend the lease to `seconds` from now. Raises `LeaseLost` if it is not yours."""
        self._queue.extend(self, seconds)

    def report(self, progress: Any) -> None:
        """Report progress, which anyone can then read as `progress` of the job.

        It is a verb, as `progress` is what is read; sync and async handlers call it alike. In a
        worker it blocks nothing: the last value is stored, at most twice a second, and with the
        outcome. A lost lease sets `signal` and raises nothing here.

        >>> job.report({"page": 3, "of": 10})  # doctest: +SKIP
        """
        self._queue.report(self, progress)

    def __repr__(self) -> str:
        return f"<Job {self.id!r} {self.kind!r} {self.state} attempt {self.attempt}>"


def _utc(at: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(at, datetime.UTC)


def _optional_utc(at: float | None) -> datetime.datetime | None:
    return None if at is None else _utc(at)


def record_of(job: Job[Any]) -> Record:
    """The record of a `Job`; raises for anything else, such as its id."""
    if not isinstance(job, Job):
        raise InvalidOption(
            f"pass the Job that claim returned or the handler was called with, not {job!r}: an id "
            "alone does not identify a lease"
        )
    return job.record
