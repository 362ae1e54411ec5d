"""Watching keys: each prefix is read once for all its watchers, who are sent the latest values."""

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
"""Keys under one watched prefix."""

CACHED_BYTES = 256 * 1024
"""Events of changed keys that are kept for all watchers of a prefix until the next look."""

MAX_EVENTS_PER_CHUNK = 500
"""Keys that a watcher is sent at once."""

PAUSE_FACTOR = 4
"""The pause after a look, as a multiple of its duration: looks use a fifth of a thread."""

STOP_AFTER = 2.0
"""Seconds that a prefix is looked at after its last watcher has left."""

Prefix = tuple[str, ...]
WatchKey = tuple[str, Prefix]
"""A tenant's prefix."""

KeyParts = tuple[str, ...]
Versions = Mapping[KeyParts, int]

_encode = msgspec.json.Encoder().encode


class PrefixSnapshot(msgspec.Struct, frozen=True):
    """What a look found: the versions, which keys have changed or are gone, and some events."""

    versions: Versions
    changed: list[KeyParts]
    events: Mapping[KeyParts, bytes]
    """Up to `CACHED_BYTES`; watchers read the other values when they are about to be sent them."""


def read_snapshot(store: Store, place: WatchKey, known: Versions, whole: bool) -> PrefixSnapshot:
    """Read all keys under a prefix: with only some of them, deleted keys could not be found out."""
    versions, events, budget = (
        dict[KeyParts, int](),
        dict[KeyParts, bytes](),
        ByteLimit(CACHED_BYTES),
    )
    for entry in read_keys(store, *place, MAX_KEYS + 1):
        versions[entry.key] = entry.version
        wanted = whole or known.get(entry.key) != entry.version
        if wanted and not budget.reached:
            events[entry.key] = _set_event(entry)
            budget.add(len(events[entry.key]))
    if len(versions) > MAX_KEYS:
        raise Unprocessable(
            f"more than {MAX_KEYS:,} keys start with this prefix: watch a longer one",
            at="prefix",
        )
    changed = [key for key, version in versions.items() if known.get(key) != version]
    return PrefixSnapshot(versions, changed + sorted(known.keys() - versions.keys()), events)


def read_keys(
    store: Store, tenant: str, prefix: Prefix, limit: int, after: KeyParts | None = None
) -> Iterator[KeyValue]:
    """A tenant's keys under a prefix; Ackline's own are not among them."""
    if prefix:
        own = prefix[:1] == (RESERVED_KEY_PREFIX,)
        return read_each_key(store, tenant, prefix, 0 if own else limit, after)
    every = read_each_key(store, tenant, (), sys.maxsize, after)
    return itertools.islice(
        (entry for entry in every if entry.key[:1] != (RESERVED_KEY_PREFIX,)), limit
    )


def _set_event(entry: KeyValue) -> bytes:
    return sse_event("set", _encode(key_document(entry)), str(entry.version))


def _delete_event(key: KeyParts) -> bytes:
    return sse_event("delete", _encode(DeletedKeyDocument(key)))


class KeySubscriber:
    """A stream that watches a prefix, and the keys of which it is to be sent the latest value.

    Only their names are kept, however slowly its client reads.
    """

    def __init__(self, runtime: Runtime, lookout: PrefixWatcher, stream: StreamSignal) -> None:
        self._runtime = runtime
        self._lookout = lookout
        self._stream = stream
        self._changed: dict[KeyParts, None] = {}
        self.error: Unprocessable | None = None
        """Why the watch ended, if it was refused."""

    def add(self, names: Iterable[KeyParts]) -> None:
        """These keys have changed, or are gone."""
        self._changed.update(dict.fromkeys(names))
        if self._changed:
            self._stream.wake.set()

    def end(self, why: Exception | None) -> None:
        """Nothing more will come."""
        if isinstance(why, Unprocessable):
            self.error = why
        self._stream.end()

    async def next_events(self) -> bytes:
        """What is to be sent now; empty if there is nothing."""
        names, self._changed = list(self._changed), {}
        now, later = names[:MAX_EVENTS_PER_CHUNK], names[MAX_EVENTS_PER_CHUNK:]
        kept = [self._lookout.latest(name) for name in now]
        if None in kept:
            kept = await self._runtime.call(self._read, now, kept)
            later = now[len(kept) :] + later
        self._changed = {**dict.fromkeys(later), **self._changed}
        return b"".join(one or b"" for one in kept)

    def _read(self, names: list[KeyParts], kept: list[bytes | None]) -> list[bytes | None]:
        """The events of the first of these keys; values that are not kept are read."""
        return list(
            ByteLimit(MAX_ANSWER_BYTES).limit(self._each(names, kept), lambda one: len(one or b""))
        )

    def _each(self, names: list[KeyParts], kept: list[bytes | None]) -> Iterator[bytes | None]:
        store, tenant = self._runtime.store, self._lookout.place[0]
        for name, one in zip(names, kept, strict=True):
            if one is None and (entry := find_key(store, tenant, name)) is not None:
                yield _set_event(entry)
            else:
                yield one  # if it is gone by now, the next look tells


class PrefixWatcher:
    """Looks at one prefix, for all its watchers."""

    def __init__(self, runtime: Runtime, tenant: str, prefix: Prefix) -> None:
        self.place: WatchKey = (tenant, prefix)
        self.error: Exception | None = None
        self._runtime = runtime
        self._seen = PrefixSnapshot({}, [], {})
        self._new: set[KeySubscriber] = set()
        """Watchers that get all keys from the next look that begins."""
        self._following: set[KeySubscriber] = set()
        self._woken = StreamSignal()
        self._begun = asyncio.Event()

    @property
    def has_subscribers(self) -> bool:
        """Whether anybody watches."""
        return bool(self._new or self._following)

    def latest(self, name: KeyParts) -> bytes | None:
        """What the last look found of a key, as an event; None if its value is not kept."""
        return self._seen.events.get(name) if name in self._seen.versions else _delete_event(name)

    def add(self, watcher: KeySubscriber) -> None:
        """Give a watcher all keys once, then changes."""
        self._new.add(watcher)
        self.wake()

    def remove(self, watcher: KeySubscriber) -> None:
        """Remove a watcher."""
        self._new.discard(watcher)
        self._following.discard(watcher)

    def wake(self) -> None:
        """Look soon: something may have changed."""
        self._woken.wake.set()

    async def wait_until_started(self) -> None:
        """Wait for the first look; raises if that failed."""
        await self._begun.wait()
        if self.error is not None:
            raise self.error

    async def run(self) -> None:
        """Look until cancelled, or until it fails."""
        try:
            async with StreamWakeup(self._runtime, self._woken, self.place[0], "finished") as news:
                while True:
                    began = time.monotonic()
                    await self._poll()
                    await asyncio.sleep(PAUSE_FACTOR * (time.monotonic() - began))
                    await news.wait()
        except Exception as error:
            self.error = error
            if not isinstance(error, ProblemError):
                logger.warning("the watch of keys under %s ended: %s", self.place, error)
        finally:
            self._begun.set()
            for watcher in self._new | self._following:
                watcher.end(self.error)

    async def _poll(self) -> None:
        new, self._new = self._new, set()
        self._following |= new  # so that `leave` also finds those that go meanwhile
        runtime, tenant = self._runtime, self.place[0]
        try:
            seen = await runtime.slow_work.call(
                tenant, read_snapshot, runtime.store, self.place, self._seen.versions, bool(new)
            )
        except TooManySlowRequests:
            if not self._begun.is_set():
                raise
            self._new |= new & self._following
            self._following -= new
            return
        self._seen = seen
        for watcher in self._following:
            watcher.add(seen.versions if watcher in new else seen.changed)
        self._begun.set()


class PrefixWatchers:
    """The lookouts of one process."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._lookouts: dict[WatchKey, PrefixWatcher] = {}
        self._tasks: dict[PrefixWatcher, asyncio.Task[None]] = {}

    async def require_watchable(self, tenant: str, prefix: Prefix) -> None:
        """Refuse a prefix with too many keys, before the answer begins."""
        lookout = self._lookout(tenant, prefix)
        try:
            await lookout.wait_until_started()
        finally:
            self._leave(lookout)

    @contextmanager
    def watching(
        self, tenant: str, prefix: Prefix, stream: StreamSignal
    ) -> Iterator[KeySubscriber]:
        """Watch a prefix inside the block."""
        lookout = self._lookout(tenant, prefix)
        watcher = KeySubscriber(self._runtime, lookout, stream)
        lookout.add(watcher)
        try:
            yield watcher
        finally:
            lookout.remove(watcher)
            self._leave(lookout)

    def notify_write(self, tenant: str, key: tuple[str, ...]) -> None:
        """A key was written or deleted by this process: look without waiting."""
        for length in range(len(key) + 1):
            lookout = self._lookouts.get((tenant, key[:length]))
            if lookout is not None:
                lookout.wake()

    async def close(self) -> None:
        """End all lookouts."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _lookout(self, tenant: str, prefix: Prefix) -> PrefixWatcher:
        found = self._lookouts.get((tenant, prefix))
        return (
            found
            if found is not None
            else self._begin(PrefixWatcher(self._runtime, tenant, prefix))
        )

    def _begin(self, lookout: PrefixWatcher) -> PrefixWatcher:
        task = asyncio.get_running_loop().create_task(lookout.run())
        task.add_done_callback(lambda _task: self._forget(lookout))
        self._lookouts[lookout.place], self._tasks[lookout] = lookout, task
        return lookout

    def _leave(self, lookout: PrefixWatcher) -> None:
        if not lookout.has_subscribers:
            asyncio.get_running_loop().call_later(STOP_AFTER, self._close_unused, lookout)

    def _close_unused(self, lookout: PrefixWatcher) -> None:
        if lookout in self._tasks and not lookout.has_subscribers:
            self._tasks[lookout].cancel()
            self._forget(lookout)  # at once: nobody may join it any more

    def _forget(self, lookout: PrefixWatcher) -> None:
        if self._tasks.pop(lookout, None) is not None:
            del self._lookouts[lookout.place]
