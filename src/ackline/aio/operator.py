"""Inspecting and operating a queue from asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any, Literal, overload

from ackline.aio.base import AsyncQueueBase
from ackline.aio.journal import (
    AsyncErrorSubscription,
    AsyncJournalReader,
    AsyncWatcher,
    Callback,
    ErrorCallback,
    follow_events,
)
from ackline.core.config import QueueSettings
from ackline.core.events import Act, Event
from ackline.core.job import State
from ackline.core.limits import Seconds, Time, optional_seconds
from ackline.queue import Job, JobPage
from ackline.queue.base import P, R
from ackline.queue.journal.follow import ERROR, event_type, require_callback
from ackline.queue.journal.reader import ReaderInfo, Start
from ackline.queue.metadata.recovery_counts import RecoveryStats
from ackline.queue.observe import require_cursor
from ackline.queue.operate import _UNSET
from ackline.stores.contract import WorkerRecord


class AsyncOperator(AsyncQueueBase[P, R]):
    """The operating side of a queue."""

    # --- inspecting ---

    async def status(self, id: str) -> Job[P] | None:
        """A job in its current state, with its ended attempts; None if there is none."""
        return await self._call(self.sync.status, id)

    async def jobs(
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
        return await self._call(
            self.sync.jobs,
            states=states,
            kinds=kinds,
            created_after=created_after,
            created_before=created_before,
            text=text,
            tags=tags,
            cursor=cursor,
            limit=limit,
            newest_first=newest_first,
        )

    async def counts(self) -> Mapping[State, int]:
        """The number of jobs in each state; as fast for ten million jobs as for ten."""
        return await self._call(self.sync.counts)

    async def settings(self) -> QueueSettings:
        """The queue's settings, which all processes share; change them with `configure`."""
        return await self._call(self.sync.settings)

    async def workers(self) -> list[WorkerRecord]:
        """The workers of this queue, with their last heartbeat."""
        return await self._call(self.sync.workers)

    async def recovery(self) -> RecoveryStats:
        """How many jobs were recovered from dead workers, and which are waiting for it."""
        return await self._call(self.sync.recovery)

    def events(
        self, after: str | None = None, *, follow_for: Seconds | None = 0.0
    ) -> AsyncIterator[Event]:
        """The journal after a cursor; waits up to `follow_for` seconds (None: forever) for more.

        Raises `EventsDropped` if events after the cursor are gone.

        >>> async for event in queue.events(follow_for=None): ...  # doctest: +SKIP
        """
        require_cursor(after)
        seconds = optional_seconds("follow_for", follow_for)
        return follow_events(self.sync.store, self.sync.key, self._threads, after, seconds)

    def reader(self, name: str, *, start: Start = "oldest") -> AsyncJournalReader:
        """A reader of the journal that continues where this name last saved."""
        return AsyncJournalReader(self.sync.reader(name, start=start), self._threads)

    async def readers(self) -> list[ReaderInfo]:
        """The registered readers of the journal, by name; then those that read every queue."""
        return await self._call(self.sync.readers)

    @overload
    async def on(
        self, what: Literal["error"], callback: ErrorCallback
    ) -> AsyncErrorSubscription: ...

    @overload
    async def on(self, what: State | Act | str, callback: Callback) -> AsyncWatcher: ...

    async def on(
        self, what: State | Act | str, callback: Callable[[Any], Awaitable[None] | None]
    ) -> AsyncWatcher | AsyncErrorSubscription:
        """Call back, on this event loop, each time that a job reaches a state, or for each act.

        One event at a time: an async callback is awaited before the next one starts. For "error",
        it calls back with each exception of what serves the queue in this process.
        """
        loop, errors = asyncio.get_running_loop(), self.sync.error_callbacks
        if what == ERROR:
            require_callback(callback)
            return AsyncErrorSubscription(errors, callback, loop)
        type, store, key = event_type(what, callback), self.sync.store, self.sync.key
        watcher = await self._call(AsyncWatcher, store, key, type, callback, errors, loop)
        self._watchers.add(watcher)
        return watcher

    # --- one job ---

    async def cancel(self, id: str, *, by: str = "") -> State:
        """Cancel a waiting job, or request that a running one stops; returns its state."""
        return await self._call(self.sync.cancel, id, by=by)

    async def redrive(self, id: str, *, delay: Seconds = 0.0, by: str = "") -> None:
        """Take a job out of the DLQ and run it again, with all its attempts."""
        await self._call(self.sync.redrive, id, delay=delay, by=by)

    async def redrive_all(
        self, *, kinds: Iterable[str] | None = None, rate: float | None = None, by: str = ""
    ) -> int:
        """Redrive all jobs in the DLQ, or all of some kinds; returns how many."""
        return await self._call(self.sync.redrive_all, kinds=kinds, rate=rate, by=by)

    async def edit(
        self,
        id: str,
        *,
        payload: Any = _UNSET,
        priority: int | None = None,
        delay: Seconds | None = None,
        expected: Job[P] | None = None,
        by: str = "",
    ) -> None:
        """Change a job that is not processing; its payload only with the serde that wrote it.

        With `expected`, a job that you read before, only if it has not changed since.
        """
        await self._call(
            self.sync.edit,
            id,
            payload=payload,
            priority=priority,
            delay=delay,
            expected=expected,
            by=by,
        )

    async def keep_result(self, id: str, seconds: Seconds) -> None:
        """Keep a finished job and its result for `seconds` from now."""
        await self._call(self.sync.keep_result, id, seconds)

    async def move(self, id: str, queue: str, *, by: str = "") -> None:
        """Move a job to another queue of the same tenant."""
        await self._call(self.sync.move, id, queue, by=by)

    # --- the queue ---

    async def pause(self, *, by: str = "") -> None:
        """Stop delivering jobs; running ones continue."""
        await self._call(self.sync.pause, by=by)

    async def resume(self, *, by: str = "") -> None:
        """Deliver jobs again."""
        await self._call(self.sync.resume, by=by)

    async def configure(self, *, by: str = "", **changes: Any) -> QueueSettings:
        """Change some of the queue's settings; see `QueueSettings`."""
        return await self._call(self.sync.configure, by=by, **changes)

    async def purge(
        self,
        *,
        states: Iterable[State | str] | None = None,
        kinds: Iterable[str] | None = None,
        ids: Iterable[str] | None = None,
        by: str = "",
    ) -> int:
        """Delete jobs: all, or those of some states, kinds or ids; returns their number."""
        return await self._call(self.sync.purge, states=states, kinds=kinds, ids=ids, by=by)

    async def drop(self, *, force: bool = False, by: str = "") -> int:
        """Delete the queue with its finished jobs, settings and schedules; returns how many jobs.

        Raises `QueueNotEmpty` while jobs wait or run, unless forced.
        """
        return await self._call(self.sync.drop, force=force, by=by)
