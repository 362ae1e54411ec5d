"""A tenant's keys: read, written, and watched in an endless stream."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec

from ackline.limits import OWN_KEYS, require_others_key
from ackline.service.auth.authorization import Access
from ackline.service.auth.caller import Caller
from ackline.service.key_documents import KeyDocument, key_document
from ackline.service.key_watches import read_keys
from ackline.service.problems import Conflict, NotFound, problem_of
from ackline.service.streams import NOTHING, PING, event
from ackline.stores.base import ANSWER_BYTES, Key, KeyWrite, Store, find_key
from ackline.stores.budget import Budget

_encode = msgspec.json.Encoder().encode


class Room:
    """The keys that one caller can reach."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._runtime = caller.runtime
        self._store = caller.runtime.store
        self._tenant = caller.tenant

    async def find_all(
        self, prefix: tuple[str, ...], limit: int, after: tuple[str, ...] | None
    ) -> list[KeyDocument]:
        """The keys that start with this prefix."""
        self._caller.require(Access.READ_KEYS)
        return await self._caller.slowly(_listed, self._store, self._tenant, prefix, limit, after)

    async def get(self, key: tuple[str, ...]) -> KeyDocument:
        """One key, or `NotFound`."""
        self._caller.require(Access.READ_KEYS)
        found = await self._find(key)
        if found is None:
            raise _absent(key)
        return key_document(found)

    async def set(
        self, key: tuple[str, ...], value: msgspec.Raw, version: int | None
    ) -> KeyDocument:
        """Write one key, if it still has this version."""
        self._caller.require(Access.WRITE_KEYS)
        require_others_key(key)
        write = KeyWrite(key=key, value=bytes(value), version=version)
        if not await self._runtime.call(self._store.write_keys, self._tenant, [write]):
            raise Conflict(f"the key {' / '.join(key)} no longer has version {version}")
        self._runtime.key_watches.wrote(self._tenant, key)
        written = await self._find(key)
        if written is None:
            raise Conflict(f"the key {' / '.join(key)} has just been deleted")
        return key_document(written)

    async def delete(self, key: tuple[str, ...]) -> None:
        """Remove one key, or `NotFound`."""
        room = self._caller.room(Access.WRITE_KEYS)
        if key[:1] == (OWN_KEYS,) or not await self._runtime.call(room.delete_key, *key):
            raise _absent(key)
        self._runtime.key_watches.wrote(self._tenant, key)

    async def watch(self, prefix: tuple[str, ...]) -> AsyncIterator[bytes]:
        """`set` for each key that is there or changes, `delete` for each that goes."""
        self._caller.require(Access.READ_KEYS)
        await self._runtime.key_watches.require_fit(self._tenant, prefix)
        return self._changes(prefix)

    async def _changes(self, prefix: tuple[str, ...]) -> AsyncIterator[bytes]:
        stream = self._runtime.streams.open(self._caller.principal.until)
        try:
            with self._runtime.key_watches.watching(self._tenant, prefix, stream) as watcher:
                yield PING
                while not stream.ended:
                    woken = await stream.pause(self._runtime.settings.ping_every)
                    while events := await watcher.take():
                        yield events
                        del events
                        yield NOTHING
                    if not woken:
                        yield PING
                if watcher.refusal is not None:
                    yield event("error", _encode(problem_of(watcher.refusal)))
        finally:
            self._runtime.streams.close(stream)

    async def _find(self, key: tuple[str, ...]) -> Key | None:
        if key[:1] == (OWN_KEYS,):
            return None
        return await self._runtime.call(find_key, self._store, self._tenant, key)


def _absent(key: tuple[str, ...]) -> NotFound:
    return NotFound(f"there is no key {' / '.join(key)}")


def _listed(
    store: Store, tenant: str, prefix: tuple[str, ...], limit: int, after: tuple[str, ...] | None
) -> list[KeyDocument]:
    keys = read_keys(store, tenant, prefix, limit, after)
    within = Budget(ANSWER_BYTES).within(keys, lambda entry: len(entry.value))
    return list(map(key_document, within))
