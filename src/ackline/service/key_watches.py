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

from ackline.limits import OWN_KEYS
from ackline.service.key_documents import GoneDocument, key_document
from ackline.service.news import News
from ackline.service.problems import Refused, Unfit
from ackline.service.slow_work import TooManyLooks
from ackline.service.streams import StreamEnd, event
from ackline.stores.base import ANSWER_BYTES, Key, Store, each_key, find_key
from ackline.stores.budget import Budget

if TYPE_CHECKING:
    from ackline.service.runtime import Runtime

logger = logging.getLogger("ackline.service")

MOST_WATCHED = 10_000
"""Keys under one watched prefix."""

KEPT_BYTES = 256 * 1024
"""Events of changed keys that are kept for all watchers of a prefix until the next look."""

MOST_AT_ONCE = 500
"""Keys that a watcher is sent at once."""

REST = 4
"""The pause after a look, as a multiple of its duration: looks use a fifth of a thread."""

LINGER = 2.0
"""Seconds that a prefix is looked at after its last watcher has left."""

Prefix = tuple[str, ...]
Place = tuple[str, Prefix]
"""A tenant's prefix."""

Name = tuple[str, ...]
Versions = Mapping[Name, int]

_encode = msgspec.json.Encoder().encode


class Seen(msgspec.Struct, frozen=True):
    """What a look found: the versions, which keys have changed or are gone, and some events."""

    versions: Versions
    changed: list[Name]
    events: Mapping[Name, bytes]
    """Up to `KEPT_BYTES`; watchers read the other values when they are about to be sent them."""


def look(store: Store, place: Place, known: Versions, whole: bool) -> Seen:
    """Read all keys under a prefix: with only some of them, deleted keys could not be found out."""
    versions, events, budget = dict[Name, int](), dict[Name, bytes](), Budget(KEPT_BYTES)
    for entry in read_keys(store, *place, MOST_WATCHED + 1):
        versions[entry.key] = entry.version
        wanted = whole or known.get(entry.key) != entry.version
        if wanted and not budget.reached:
            events[entry.key] = _set(entry)
            budget.spend(len(events[entry.key]))
    if len(versions) > MOST_WATCHED:
        raise Unfit(
            f"more than {MOST_WATCHED:,} keys start with this prefix: watch a longer one",
            at="prefix",
        )
    changed = [key for key, version in versions.items() if known.get(key) != version]
    return Seen(versions, changed + sorted(known.keys() - versions.keys()), events)


def read_keys(
    store: Store, tenant: str, prefix: Prefix, limit: int, after: Name | None = None
) -> Iterator[Key]:
    """A tenant's keys under a prefix; Ackline's own are not among them."""
    if prefix:
        own = prefix[:1] == (OWN_KEYS,)
        return each_key(store, tenant, prefix, 0 if own else limit, after)
    every = each_key(store, tenant, (), sys.maxsize, after)
    return itertools.islice((entry for entry in every if entry.key[:1] != (OWN_KEYS,)), limit)


def _set(entry: Key) -> bytes:
    return event("set", _encode(key_document(entry)), str(entry.version))


def _gone(key: Name) -> bytes:
    return event("delete", _encode(GoneDocument(key)))


class Watcher:
    """A stream that watches a prefix, and the keys of which it is to be sent the latest value.

    Only their names are kept, however slowly its client reads.
    """

    def __init__(self, runtime: Runtime, lookout: Lookout, stream: StreamEnd) -> None:
        self._runtime = runtime
        self._lookout = lookout
        self._stream = stream
        self._changed: dict[Name, None] = {}
        self.refusal: Unfit | None = None
        """Why the watch ended, if it was refused."""

    def add(self, names: Iterable[Name]) -> None:
        """These keys have changed, or are gone."""
        self._changed.update(dict.fromkeys(names))
        if self._changed:
            self._stream.wake.set()

    def end(self, why: Exception | None) -> None:
        """Nothing more will come."""
        if isinstance(why, Unfit):
            self.refusal = why
        self._stream.end()

    async def take(self) -> bytes:
        """What is to be sent now; empty if there is nothing."""
        names, self._changed = list(self._changed), {}
        now, later = names[:MOST_AT_ONCE], names[MOST_AT_ONCE:]
        kept = [self._lookout.latest(name) for name in now]
        if None in kept:
            kept = await self._runtime.call(self._read, now, kept)
            later = now[len(kept) :] + later
        self._changed = {**dict.fromkeys(later), **self._changed}
        return b"".join(one or b"" for one in kept)

    def _read(self, names: list[Name], kept: list[bytes | None]) -> list[bytes | None]:
        """The events of the first of these keys; values that are not kept are read."""
        return list(
            Budget(ANSWER_BYTES).within(self._each(names, kept), lambda one: len(one or b""))
        )

    def _each(self, names: list[Name], kept: list[bytes | None]) -> Iterator[bytes | None]:
        store, tenant = self._runtime.store, self._lookout.place[0]
        for name, one in zip(names, kept, strict=True):
            if one is None and (entry := find_key(store, tenant, name)) is not None:
                yield _set(entry)
            else:
                yield one  # if it is gone by now, the next look tells


class Lookout:
    """Looks at one prefix, for all its watchers."""

    def __init__(self, runtime: Runtime, tenant: str, prefix: Prefix) -> None:
        self.place: Place = (tenant, prefix)
        self.error: Exception | None = None
        self._runtime = runtime
        self._seen = Seen({}, [], {})
        self._new: set[Watcher] = set()
        """Watchers that get all keys from the next look that begins."""
        self._following: set[Watcher] = set()
        self._woken = StreamEnd()
        self._begun = asyncio.Event()

    @property
    def used(self) -> bool:
        """Whether anybody watches."""
        return bool(self._new or self._following)

    def latest(self, name: Name) -> bytes | None:
        """What the last look found of a key, as an event; None if its value is not kept."""
        return self._seen.events.get(name) if name in self._seen.versions else _gone(name)

    def join(self, watcher: Watcher) -> None:
        """Give a watcher all keys once, then changes."""
        self._new.add(watcher)
        self.wake()

    def leave(self, watcher: Watcher) -> None:
        """Remove a watcher."""
        self._new.discard(watcher)
        self._following.discard(watcher)

    def wake(self) -> None:
        """Look soon: something may have changed."""
        self._woken.wake.set()

    async def begun(self) -> None:
        """Wait for the first look; raises if that failed."""
        await self._begun.wait()
        if self.error is not None:
            raise self.error

    async def run(self) -> None:
        """Look until cancelled, or until it fails."""
        try:
            async with News(self._runtime, self._woken, self.place[0], "ends") as news:
                while True:
                    began = time.monotonic()
                    await self._look()
                    await asyncio.sleep(REST * (time.monotonic() - began))
                    await news.wait()
        except Exception as error:
            self.error = error
            if not isinstance(error, Refused):
                logger.warning("the watch of keys under %s ended: %s", self.place, error)
        finally:
            self._begun.set()
            for watcher in self._new | self._following:
                watcher.end(self.error)

    async def _look(self) -> None:
        new, self._new = self._new, set()
        self._following |= new  # so that `leave` also finds those that go meanwhile
        runtime, tenant = self._runtime, self.place[0]
        try:
            seen = await runtime.slow_work.call(
                tenant, look, runtime.store, self.place, self._seen.versions, bool(new)
            )
        except TooManyLooks:
            if not self._begun.is_set():
                raise
            self._new |= new & self._following
            self._following -= new
            return
        self._seen = seen
        for watcher in self._following:
            watcher.add(seen.versions if watcher in new else seen.changed)
        self._begun.set()


class KeyWatches:
    """The lookouts of one process."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._lookouts: dict[Place, Lookout] = {}
        self._tasks: dict[Lookout, asyncio.Task[None]] = {}

    async def require_fit(self, tenant: str, prefix: Prefix) -> None:
        """Refuse a prefix with too many keys, before the answer begins."""
        lookout = self._lookout(tenant, prefix)
        try:
            await lookout.begun()
        finally:
            self._leave(lookout)

    @contextmanager
    def watching(self, tenant: str, prefix: Prefix, stream: StreamEnd) -> Iterator[Watcher]:
        """Watch a prefix inside the block."""
        lookout = self._lookout(tenant, prefix)
        watcher = Watcher(self._runtime, lookout, stream)
        lookout.join(watcher)
        try:
            yield watcher
        finally:
            lookout.leave(watcher)
            self._leave(lookout)

    def wrote(self, tenant: str, key: tuple[str, ...]) -> None:
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

    def _lookout(self, tenant: str, prefix: Prefix) -> Lookout:
        found = self._lookouts.get((tenant, prefix))
        return found if found is not None else self._begin(Lookout(self._runtime, tenant, prefix))

    def _begin(self, lookout: Lookout) -> Lookout:
        task = asyncio.get_running_loop().create_task(lookout.run())
        task.add_done_callback(lambda _task: self._forget(lookout))
        self._lookouts[lookout.place], self._tasks[lookout] = lookout, task
        return lookout

    def _leave(self, lookout: Lookout) -> None:
        if not lookout.used:
            asyncio.get_running_loop().call_later(LINGER, self._close_unused, lookout)

    def _close_unused(self, lookout: Lookout) -> None:
        if lookout in self._tasks and not lookout.used:
            self._tasks[lookout].cancel()
            self._forget(lookout)  # at once: nobody may join it any more

    def _forget(self, lookout: Lookout) -> None:
        if self._tasks.pop(lookout, None) is not None:
            del self._lookouts[lookout.place]
