"""Watches keys: each prefix is read once for all its subscribers, who get the latest values."""

from __future__ import annotations

import asyncio
import itertools
import logging
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from ackline.core.limits import RESERVED_KEY_PREFIX
from ackline.service.http.problems import ProblemError, Unprocessable
from ackline.service.http.sse import StreamSignal, sse_event
from ackline.service.keyspace.documents import DeletedKeyDocument, key_document
from ackline.service.threads.slow_work import TooManySlowRequests
from ackline.service.wakeups.stream_wakeup import StreamWakeup
from ackline.stores.contract import MAX_ANSWER_BYTES, KeyValue, Store, find_key, read_each_key
from ackline.stores.shared.byte_limit import ByteLimit

if TYPE_CHECKING:
    from ackline.service.runtime import Runtime

logger = logging.getLogger("ackline.service")

MAX_KEYS = 10_000
"""Maximum number of keys under a watched prefix."""

CACHED_BYTES = 256 * 1024
"""Bytes of events that are cached for all subscribers of a prefix until the next poll."""

MAX_EVENTS_PER_CHUNK = 500
"""Maximum number of keys in one chunk of a stream."""

PAUSE_FACTOR = 4
"""The pause after a poll, as a multiple of its duration: polling uses a fifth of a thread."""

STOP_AFTER = 2.0
"""Seconds after its last subscriber has left until a prefix is no longer watched."""

Prefix = tuple[str, ...]
WatchKey = tuple[str, Prefix]
"""A tenant and a prefix."""

KeyParts = tuple[str, ...]
Versions = Mapping[KeyParts, int]

_encode = msgspec.json.Encoder().encode


class PrefixSnapshot(msgspec.Struct, frozen=True):
    """The result of a poll: the versions, which keys changed or were deleted, and some events."""

    versions: Versions
    changed: list[KeyParts]
    events: Mapping[KeyParts, bytes]
    """Up to `CACHED_BYTES`; other values are read when they are about to be sent."""


def read_snapshot(
    store: Store, key: WatchKey, versions_before: Versions, everything: bool
) -> PrefixSnapshot:
    """Read all keys under a prefix; reading only some would not reveal deleted ones."""
    versions, events, budget = (
        dict[KeyParts, int](),
        dict[KeyParts, bytes](),
        ByteLimit(CACHED_BYTES),
    )
    for entry in read_keys(store, *key, MAX_KEYS + 1):
        versions[entry.key] = entry.version
        needed = everything or versions_before.get(entry.key) != entry.version
        if needed and not budget.reached:
            events[entry.key] = _set_event(entry)
            budget.add(len(events[entry.key]))
    if len(versions) > MAX_KEYS:
        raise Unprocessable(
            f"more than {MAX_KEYS:,} keys start with this prefix: watch a longer one",
            at="prefix",
        )
    changed = [key for key, version in versions.items() if versions_before.get(key) != version]
    return PrefixSnapshot(
        versions, changed + sorted(versions_before.keys() - versions.keys()), events
    )


def read_keys(
    store: Store, tenant: str, prefix: Prefix, limit: int, after: KeyParts | None = None
) -> Iterator[KeyValue]:
    """A tenant's keys under a prefix, without reserved ones."""
    if prefix:
        reserved = prefix[:1] == (RESERVED_KEY_PREFIX,)
        return read_each_key(store, tenant, prefix, 0 if reserved else limit, after)
    every = read_each_key(store, tenant, (), sys.maxsize, after)
    return itertools.islice(
        (entry for entry in every if entry.key[:1] != (RESERVED_KEY_PREFIX,)), limit
    )


def _set_event(entry: KeyValue) -> bytes:
    return sse_event("set", _encode(key_document(entry)), str(entry.version))


def _delete_event(key: KeyParts) -> bytes:
    return sse_event("delete", _encode(DeletedKeyDocument(key)))


class KeySubscriber:
    """A stream that watches a prefix, and the keys whose latest value it still has to send.

    Only the names of keys are kept, however slowly the client reads.
    """

    def __init__(self, runtime: Runtime, watcher: PrefixWatcher, stream: StreamSignal) -> None:
        self._runtime = runtime
        self._watcher = watcher
        self._stream = stream
        self._changed: dict[KeyParts, None] = {}
        self.error: Unprocessable | None = None
        """Why the watch was refused, if it was."""

    def add(self, names: Iterable[KeyParts]) -> None:
        """Add keys that changed or were deleted."""
        self._changed.update(dict.fromkeys(names))
        if self._changed:
            self._stream.wake.set()

    def end(self, error: Exception | None) -> None:
        """End the stream."""
        if isinstance(error, Unprocessable):
            self.error = error
        self._stream.end()

    async def next_events(self) -> bytes:
        """The next chunk to send; empty if there is none."""
        names, self._changed = list(self._changed), {}
        now, later = names[:MAX_EVENTS_PER_CHUNK], names[MAX_EVENTS_PER_CHUNK:]
        kept = [self._watcher.latest(name) for name in now]
        if None in kept:
            kept = await self._runtime.call(self._read, now, kept)
            later = now[len(kept) :] + later
        self._changed = {**dict.fromkeys(later), **self._changed}
        return b"".join(one or b"" for one in kept)

    def _read(self, names: list[KeyParts], kept: list[bytes | None]) -> list[bytes | None]:
        """The events of the first of these keys; values that are not cached are read."""
        return list(
            ByteLimit(MAX_ANSWER_BYTES).limit(self._each(names, kept), lambda one: len(one or b""))
        )

    def _each(self, names: list[KeyParts], kept: list[bytes | None]) -> Iterator[bytes | None]:
        store, tenant = self._runtime.store, self._watcher.watch_key[0]
        for name, one in zip(names, kept, strict=True):
            if one is None and (entry := find_key(store, tenant, name)) is not None:
                yield _set_event(entry)
            else:
                yield one  # if it was deleted meanwhile, the next poll reports it


class PrefixWatcher:
    """Polls one prefix for all its subscribers."""

    def __init__(self, runtime: Runtime, tenant: str, prefix: Prefix) -> None:
        self.watch_key: WatchKey = (tenant, prefix)
        self.error: Exception | None = None
        self._runtime = runtime
        self._snapshot = PrefixSnapshot({}, [], {})
        self._new: set[KeySubscriber] = set()
        """Subscribers that get all keys from the next poll."""
        self._following: set[KeySubscriber] = set()
        self._woken = StreamSignal()
        self._started = asyncio.Event()

    @property
    def has_subscribers(self) -> bool:
        """Whether there is any subscriber."""
        return bool(self._new or self._following)

    def latest(self, name: KeyParts) -> bytes | None:
        """The last known state of a key, as an event; None if its value is not cached."""
        return (
            self._snapshot.events.get(name)
            if name in self._snapshot.versions
            else _delete_event(name)
        )

    def add(self, subscriber: KeySubscriber) -> None:
        """Add a subscriber, which gets all keys once and then the changes."""
        self._new.add(subscriber)
        self.wake()

    def remove(self, subscriber: KeySubscriber) -> None:
        """Remove a subscriber."""
        self._new.discard(subscriber)
        self._following.discard(subscriber)

    def wake(self) -> None:
        """Poll soon: something may have changed."""
        self._woken.wake.set()

    async def wait_until_started(self) -> None:
        """Wait for the first poll; raises if it failed."""
        await self._started.wait()
        if self.error is not None:
            raise self.error

    async def run(self) -> None:
        """Poll until cancelled, or until a poll fails."""
        try:
            async with StreamWakeup(
                self._runtime, self._woken, self.watch_key[0], "finished"
            ) as wakeup:
                while True:
                    started_at = time.monotonic()
                    await self._poll()
                    await asyncio.sleep(PAUSE_FACTOR * (time.monotonic() - started_at))
                    await wakeup.wait()
        except Exception as error:
            self.error = error
            if not isinstance(error, ProblemError):
                logger.warning("watching the keys under %s failed: %s", self.watch_key, error)
        finally:
            self._started.set()
            for subscriber in self._new | self._following:
                subscriber.end(self.error)

    async def _poll(self) -> None:
        new, self._new = self._new, set()
        self._following |= new  # so that `remove` also finds those that leave meanwhile
        runtime, tenant = self._runtime, self.watch_key[0]
        try:
            snapshot = await runtime.slow_work.call(
                tenant,
                read_snapshot,
                runtime.store,
                self.watch_key,
                self._snapshot.versions,
                bool(new),
            )
        except TooManySlowRequests:
            if not self._started.is_set():
                raise
            self._new |= new & self._following
            self._following -= new
            return
        self._snapshot = snapshot
        for subscriber in self._following:
            subscriber.add(snapshot.versions if subscriber in new else snapshot.changed)
        self._started.set()


class PrefixWatchers:
    """The prefix watchers of a process."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._watchers: dict[WatchKey, PrefixWatcher] = {}
        self._tasks: dict[PrefixWatcher, asyncio.Task[None]] = {}

    async def require_watchable(self, tenant: str, prefix: Prefix) -> None:
        """Refuse a prefix with too many keys, before the response starts."""
        watcher = self._watcher(tenant, prefix)
        try:
            await watcher.wait_until_started()
        finally:
            self._leave(watcher)

    @contextmanager
    def watching(
        self, tenant: str, prefix: Prefix, stream: StreamSignal
    ) -> Iterator[KeySubscriber]:
        """Watch a prefix inside the block."""
        watcher = self._watcher(tenant, prefix)
        subscriber = KeySubscriber(self._runtime, watcher, stream)
        watcher.add(subscriber)
        try:
            yield subscriber
        finally:
            watcher.remove(subscriber)
            self._leave(watcher)

    def notify_write(self, tenant: str, key: tuple[str, ...]) -> None:
        """Poll at once after this process has written or deleted a key."""
        for length in range(len(key) + 1):
            watcher = self._watchers.get((tenant, key[:length]))
            if watcher is not None:
                watcher.wake()

    async def close(self) -> None:
        """Stop all watchers."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _watcher(self, tenant: str, prefix: Prefix) -> PrefixWatcher:
        found = self._watchers.get((tenant, prefix))
        return (
            found
            if found is not None
            else self._begin(PrefixWatcher(self._runtime, tenant, prefix))
        )

    def _begin(self, watcher: PrefixWatcher) -> PrefixWatcher:
        task = asyncio.get_running_loop().create_task(watcher.run())
        task.add_done_callback(lambda _task: self._forget(watcher))
        self._watchers[watcher.watch_key], self._tasks[watcher] = watcher, task
        return watcher

    def _leave(self, watcher: PrefixWatcher) -> None:
        if not watcher.has_subscribers:
            asyncio.get_running_loop().call_later(STOP_AFTER, self._close_unused, watcher)

    def _close_unused(self, watcher: PrefixWatcher) -> None:
        if watcher in self._tasks and not watcher.has_subscribers:
            self._tasks[watcher].cancel()
            self._forget(watcher)  # now: nobody may subscribe to it any more

    def _forget(self, watcher: PrefixWatcher) -> None:
        if self._tasks.pop(watcher, None) is not None:
            del self._watchers[watcher.watch_key]
