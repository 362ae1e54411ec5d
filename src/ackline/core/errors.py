"""Every error that Ackline raises, in one tree.

AcklineError
├── ConfigError            a URL, a setting or an installation that cannot work
│   ├── UnknownStore       no store is registered for this URL
│   └── MissingExtra       the store exists, its driver is not installed
├── InvalidJob             rejected before anything was stored
│   ├── InvalidName        an id, kind, queue or tenant that cannot be stored
│   ├── InvalidOption      a priority, delay, … outside its range
│   └── InvalidPayload     cannot be encoded unchanged, or is not of its declared type
│       ├── PayloadTooLarge
│       └── InvalidArguments  arguments that a task does not take, or that cannot be stored
├── Timeout                the timeout has passed; the job itself is not affected
├── JobNotFound            there is no job with this id, or no longer
├── JobFailed              the job is in the DLQ; `failure` says why
│   └── MaxAttemptsExceeded  … because its attempts are used up
├── JobCancelled           the job was cancelled
├── WrongState             the job is in a state that does not allow this
├── JobChanged             the job has changed since it was read; nothing was changed
├── QueueNotEmpty          a queue that has live jobs is dropped only with force
├── LeaseLost              the lease is no longer yours; nothing was changed
├── Stopped                a handler gave up because its signal was set
├── EventsDropped          events after the cursor were dropped; `cursor` is where the rest begins
├── LifespanFailed         a worker's resources could not be opened; it has not started
├── HandlersHang           too many handlers of a worker do not stop; it has shut down
├── ReaderMoved            another process saved as this reader; nothing was changed
├── KeysChanged            another process has written a key; nothing was stored
└── StoreError             the store rejected the call, or failed
    ├── StoreUnavailable   it could not be reached or is busy; the call may succeed later
    │   └── StoreClosed    this program has closed it, or has not opened it yet
    ├── StoreFull          it cannot take more jobs; settling and purging still work
    ├── StoreReadOnly      it can be read but not written
    ├── StoreForbidden     the token is not allowed to do this
    ├── CannotJoin         it cannot join the caller's transaction; nothing was done
    └── StoreMismatch      the data belongs to another program or a newer Ackline
"""

from __future__ import annotations

import contextlib
import importlib
import os
import traceback
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ackline.core.job import Failure, State


class AcklineError(Exception):
    """The root of all errors raised by Ackline."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Constructors take other things than the message, so pickle must not call them again.
        return _unpickle, (type(self), self.args, self.__dict__)


_INTERNAL_PATHS = (
    f"{os.path.dirname(os.path.dirname(__file__))}{os.sep}",
    f"{os.path.dirname(importlib.__file__)}{os.sep}",
    contextlib.__file__,
    "<frozen ",
)
"""Files of code that only calls the user's."""


def location_of(error: BaseException) -> str:
    """File and line of the last frame that is not Ackline's; empty if there is none."""
    location = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        if not frame.f_code.co_filename.startswith(_INTERNAL_PATHS):
            location = f"{frame.f_code.co_filename} line {line}"
    return location


def _unpickle(
    cls: type[AcklineError], args: tuple[object, ...], state: dict[str, Any]
) -> AcklineError:
    error = cls.__new__(cls, *args)
    error.__dict__.update(state)
    return error


class ConfigError(AcklineError, ValueError):
    """A URL, a setting or an installation that cannot work."""


def _without_password(url: str) -> str:
    scheme, mark, rest = url.partition("://")
    _, at, host = rest.rpartition("@")
    return f"{scheme}{mark}…@{host}" if at else url


class UnknownStore(ConfigError):
    """No store is registered for this URL."""

    def __init__(self, url: str, known: list[str]) -> None:
        schemes = ", ".join(f"{scheme}://" for scheme in sorted(known))
        super().__init__(
            f"unknown store URL {_without_password(url)!r}. Known schemes: {schemes}. "
            "A file on this machine is sqlite:///path/to/jobs.db"
        )


class MissingExtra(ConfigError):
    """The store exists, but its driver is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(
            f"{what} needs the extra {extra!r}: pip install 'ackline[{extra}]', "
            f"or '.[{extra}]' in a checkout"
        )
        self.extra = extra


class InvalidJob(AcklineError, ValueError):
    """The job was rejected before anything was stored."""


class InvalidName(InvalidJob):
    """An id, kind, queue or tenant name that cannot be stored."""


class InvalidOption(InvalidJob):
    """A priority, delay, lease or other option outside its range."""


class InvalidPayload(InvalidJob):
    """A payload or result that cannot be encoded unchanged, or is not of its declared type."""


class PayloadTooLarge(InvalidPayload):
    """A payload or result larger than the queue's limit."""

    def __init__(self, what: str, size: int, limit: int) -> None:
        super().__init__(
            f"the {what} is {size:,} bytes, the limit is {limit:,}. "
            "Store it elsewhere and enqueue a reference, or raise max_payload"
        )
        self.size = size
        self.limit = limit


class InvalidArguments(InvalidPayload, TypeError):
    """Arguments that a task does not take, or that cannot be stored."""


class Timeout(AcklineError, TimeoutError):
    """The timeout has passed; the job itself is not affected and may still finish."""


class JobNotFound(AcklineError, LookupError):
    """There is no job with this id, or no longer."""

    def __init__(self, queue: str, id: str) -> None:
        super().__init__(f"queue {queue!r} has no job {id!r}: never enqueued, or pruned already")
        self.id = id


class JobFailed(AcklineError):
    """The job is in the DLQ; `failure` is the last error."""

    def __init__(self, id: str, failure: Failure | None) -> None:
        reason = f"{failure.type}: {failure.message}" if failure else "no error was recorded"
        super().__init__(f"job {id!r} failed for good: {reason}")
        self.id = id
        self.failure = failure


class MaxAttemptsExceeded(JobFailed):
    """The job is in the DLQ because its attempts are used up; `failure` is the last error."""


class JobCancelled(AcklineError):
    """The job was cancelled before it completed."""

    def __init__(self, id: str) -> None:
        super().__init__(f"job {id!r} was cancelled")
        self.id = id


class WrongState(AcklineError):
    """The job is in a state that does not allow this."""

    def __init__(self, act: str, id: str, state: State) -> None:
        super().__init__(f"cannot {act} job {id!r}: it is {state}")
        self.id = id
        self.state = state


class JobChanged(AcklineError):
    """The job has changed since it was read; nothing was changed."""

    def __init__(self, id: str) -> None:
        super().__init__(
            f"job {id!r} has changed since it was read; nothing was changed. Read it again, "
            "then decide"
        )
        self.id = id


class QueueNotEmpty(AcklineError):
    """A queue that has live jobs is dropped only with force."""

    def __init__(self, queue: str, live: int) -> None:
        jobs = f"{live} waiting or running jobs" if live else "jobs that are being enqueued"
        super().__init__(
            f"queue {queue!r} was not dropped: it still has {jobs}. "
            "Wait for them to finish, or force it: that deletes them"
        )
        self.live = live


class LeaseLost(AcklineError):
    """The lease is no longer yours; nothing was changed."""

    def __init__(self, id: str, state: State | None, open_act: str | None = None) -> None:
        now = f"it is {state} now" if state else "it is gone"
        hint = (
            f", or the transaction in which you called {open_act}() is still open: commit it or "
            "roll it back first"
            if open_act
            else ""
        )
        super().__init__(f"the lease of job {id!r} is lost ({now}){hint}; nothing was changed")
        self.id = id
        self.state = state


class Stopped(AcklineError):
    """A handler gave up because its signal was set; what follows depends on the reason."""


class EventsDropped(AcklineError):
    """Events after the cursor were dropped; `cursor` is where the remaining ones begin."""

    def __init__(self, journal: str, after: str, cursor: str) -> None:
        super().__init__(
            f"the journal of {journal} no longer has all events after cursor {after}. "
            f"The oldest available cursor is {cursor}: continue from there"
        )
        self.cursor = cursor


class LifespanFailed(AcklineError):
    """The resources of a worker could not be opened, so it has not started."""

    def __init__(self, name: str, error: BaseException) -> None:
        location = location_of(error)
        where = f" ({location})" if location else ""
        super().__init__(f"lifespan {name} failed: {type(error).__name__}: {error}{where}")


class HandlersHang(AcklineError):
    """Too many handlers of a worker do not stop; it has shut down and released its jobs."""

    def __init__(self, queue: str) -> None:
        super().__init__(
            f"too many handlers of queue {queue!r} hang: they were asked to stop, and neither "
            "returned nor raised. Start a new process. Set timeouts on the calls they wait for, "
            "or have them check job.signal"
        )


class ReaderMoved(AcklineError):
    """Another process saved as this reader, or deleted it; nothing was changed."""

    def __init__(self, queue: str | None, name: str, cursor: str | None) -> None:
        journals = "all queues" if queue is None else f"queue {queue!r}"
        now = f"it is at {cursor} now" if cursor else "it was deleted"
        super().__init__(
            f"reader {name!r} of {journals} was changed by another process ({now}); "
            "nothing was changed. Give each process a reader of its own"
        )
        self.cursor = cursor


class KeysChanged(AcklineError):
    """Another process has written a key since it was read; nothing was stored."""

    def __init__(self, queue: str) -> None:
        super().__init__(
            f"a key to be written with an enqueue into {queue!r} was changed by another process "
            "since it was read; nothing was stored. Read it and try again"
        )


class StoreError(AcklineError):
    """The store rejected the call, or failed."""


class StoreUnavailable(StoreError):
    """The store could not be reached or is busy; the same call may succeed later."""


class StoreClosed(StoreUnavailable):
    """This program has closed the store, or has not opened it yet."""


class StoreFull(StoreError):
    """The queue or store is full; settling, cancelling and purging still work."""

    @classmethod
    def of_queue(cls, queue: object, limit: int) -> StoreFull:
        """The error for a queue with as many jobs as its `max_jobs` allows."""
        return cls(
            f"queue {queue} already holds its maximum of {limit:,} jobs (max_jobs); nothing was "
            "stored. Try again later, or raise the limit"
        )


class StoreReadOnly(StoreError):
    """The store can be read but not written."""


class StoreForbidden(StoreError):
    """The token is not allowed to do this: it lacks a scope, or access to the queue."""


class CannotJoin(StoreError):
    """The store cannot join the caller's transaction; nothing was done."""


class StoreMismatch(StoreError):
    """The data belongs to another program, or to a newer Ackline."""


def message_of(error: BaseException) -> str:
    """The message of an error, or a substitute if its `__str__` raises."""
    try:
        return str(error)
    except Exception:
        return "<error message unavailable: __str__ raised>"


TRANSIENT_ERRORS = (StoreUnavailable, StoreFull, StoreReadOnly)
"""Errors that are temporary, or that an operator can resolve: the call may succeed later."""
