"""Observing a queue: its jobs, counts, workers and journal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, Literal, overload

import msgspec

from ackline.core.config import QueueSettings
from ackline.core.errors import InvalidOption, StoreForbidden
from ackline.core.events import Act, Event, read_cursor
from ackline.core.job import State
from ackline.core.limits import (
    Seconds,
    Time,
    as_names,
    optional_seconds,
    optional_timestamp,
    require_number,
    require_text,
)
from ackline.queue.base import P, R
from ackline.queue.error_callbacks import ErrorCallback, ErrorSubscription
from ackline.queue.handlers import import_path_of, is_async
from ackline.queue.job import Job
from ackline.queue.journal.follow import (
    ERROR,
    Watcher,
    event_type,
    follow,
    require_callback,
)
from ackline.queue.journal.reader import JournalReader, ReaderInfo, Start, readers_of
from ackline.queue.metadata.recovery_counts import RecoveryStats, load_recovery_counts
from ackline.queue.settle import Settler
from ackline.stores.contract import Filter, Page, WorkerRecord


class JobPage(msgspec.Struct, Generic[P], frozen=True):
    """A page of jobs; pass `cursor` to get the next one, None means there is none.

    >>> for job in queue.jobs(states=["failed"]): ...  # doctest: +SKIP
    """

    jobs: list[Job[P]]
    cursor: str | None

    def __iter__(self) -> Iterator[Job[P]]:
        return iter(self.jobs)

    def __len__(self) -> int:
        return len(self.jobs)


class Observer(Settler[P, R]):
    """The observing side of a queue."""

    def status(self, id: str) -> Job[P] | None:
        """The job with this id and its failed attempts; None if there is none."""
        require_text("id", id)
        record = self.store.get(self.key, [id])[0]
        return self.wrap(record) if record is not None else None

    def jobs(
        self,
        *,
        states: Iterable[State | str] | None = None,
        kinds: Iterable[str] | None = None,
        created_after: Time | None = None,
        created_before: Time | None = None,
        text: str | None = None,
        tags: Iterable[str] | None = None,
        cursor: str | None = None,
        limit: int = 100,
        newest_first: bool = False,
    ) -> JobPage[P]:
        """One page of the jobs that match, ordered by state, then by position.

        With several `tags`, jobs that have all of them. `newest_first` reverses the order within
        each state.
        """
        require_number("limit", limit, 1)
        for option, value in (("text", text), ("cursor", cursor)):
            if value is not None:
                require_text(option, value)
        which = Filter(
            states=as_states(states),
            kinds=as_names(kinds),
            created_after=optional_timestamp("created_after", created_after),
            created_before=optional_timestamp("created_before", created_before),
            text=text,
            tags=as_names(tags, "tags"),
        )
        page = self._page(which, cursor, limit, newest_first)
        return JobPage([self.wrap(record) for record in page.jobs], page.cursor)

    def _page(self, which: Filter, cursor: str | None, limit: int, newest_first: bool) -> Page:
        try:
            return self.store.page(self.key, which, cursor, limit, newest_first)
        except msgspec.DecodeError:
            raise InvalidOption(
                f"cursor must be the one of an earlier page, page.cursor, not {cursor!r}"
            ) from None

    def counts(self) -> Mapping[State, int]:
        """The number of jobs in each state; costs the same for ten jobs and ten million."""
        found = self.store.describe(self.key.tenant, self.key.name)
        counts = found[0].counts if found else dict.fromkeys(State, 0)
        if len(counts) < len(State):
            raise StoreForbidden(f"counting the jobs of queue {self.key} needs the scope read")
        return counts

    def settings(self) -> QueueSettings:
        """The queue's settings, shared by all processes; change them with `configure`."""
        return self.policies.stored_settings()

    def workers(self) -> list[WorkerRecord]:
        """The workers of this queue, with their last heartbeat."""
        return self.store.workers([self.key])[0]

    def recovery(self) -> RecoveryStats:
        """How many jobs were recovered from dead workers, and which ones are overdue.

        >>> queue.recovery().by_source  # doctest: +SKIP
        {<RecoveredBy.HEARTBEAT: 'heartbeat'>: Recovered(jobs=12, dead_lettered=0, last_at=1773.2)}
        """
        self.recoveries.save()
        lapsed = self.store.leases(self.key)
        now = self.store.now() if lapsed else 0.0
        overdue = {job.id: now - (job.deadline or now) for job in lapsed}
        limit = self.settings().stuck_after if lapsed else 0.0
        return RecoveryStats(
            by_source=load_recovery_counts(self.store, self.key),
            overdue=len(overdue),
            longest_overdue=max(overdue.values(), default=0.0),
            stuck=tuple(id for id, seconds in overdue.items() if seconds > limit),
        )

    def events(
        self, after: str | None = None, *, follow_for: Seconds | None = 0.0
    ) -> Iterator[Event]:
        """The journal after a cursor; waits up to `follow_for` seconds (None: forever) for more.

        Without a cursor it begins with the oldest event that is kept. Raises `EventsDropped` if
        events after the cursor are gone; `after=error.cursor` continues without them.
        """
        require_cursor(after)
        return follow(self.store, self.key, after, optional_seconds("follow_for", follow_for))

    def reader(self, name: str, *, start: Start = "oldest") -> JournalReader:
        """A reader of the journal that continues where this name last saved.

        The first time it begins with the oldest event that is kept, or with what happens from
        now on. Each process that reads needs a name of its own.

        >>> events = queue.reader("audit").read()  # doctest: +SKIP
        """
        return JournalReader(self.store, self.key, name, start)

    def readers(self) -> list[ReaderInfo]:
        """The registered readers of the journal, by name; then those that read every queue."""
        return readers_of(self.store, self.key)

    @overload
    def on(self, what: Literal["error"], callback: ErrorCallback) -> ErrorSubscription: ...

    @overload
    def on(self, what: State | Act | str, callback: Callable[[Event], None]) -> Watcher: ...

    def on(
        self, what: State | Act | str, callback: Callable[[Any], None]
    ) -> Watcher | ErrorSubscription:
        """Call back each time that a job reaches a state, or for each act, from now on.

        In a thread, one event after the other, until it or the queue is closed. For "error", it
        calls back with each exception of what serves the queue in this process: a worker's claims
        and heartbeats, maintenance, and other callbacks. An error that lasts may come again.

        >>> watcher = queue.on("completed", lambda event: print(event.id))  # doctest: +SKIP
        """
        if is_async(callback):
            raise InvalidOption(
                f"{import_path_of(callback)} is async, and a thread calls it back: "
                "pass a plain function, or use a queue of ackline.aio"
            )
        if what == ERROR:
            require_callback(callback)
            return self.error_callbacks.add(callback)
        type = event_type(what, callback)
        watcher = Watcher(self.store, self.key, type, callback, self.error_callbacks)
        self.watchers.add(watcher)
        return watcher


def require_cursor(after: str | None) -> None:
    """Raise for anything but a cursor of a journal."""
    try:
        read_cursor(after)
    except (AttributeError, ValueError):
        raise InvalidOption(
            f"after must be the cursor of an event, event.cursor, not {after!r}"
        ) from None


def as_states(given: Iterable[State | str] | str | None) -> frozenset[State]:
    """The states that a caller passed: None means all; a single one need not be a list."""
    if given is None:
        return frozenset(State)
    try:
        return frozenset(map(State, as_names(given, "states") or ()))
    except ValueError as error:
        raise InvalidOption(f"{error}; the states are {', '.join(State)}") from None
