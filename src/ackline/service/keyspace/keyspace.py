"""A tenant's keys: read, written, and watched in an endless stream."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec

from ackline.core.limits import RESERVED_KEY_PREFIX, require_user_key
from ackline.service.auth.caller import Caller
from ackline.service.auth.permissions import Permission
from ackline.service.http.problems import Conflict, NotFound, problem_of
from ackline.service.http.sse import EMPTY_CHUNK, PING, sse_event
from ackline.service.keyspace.documents import KeyDocument, key_document
from ackline.service.keyspace.prefix_watcher import read_keys
from ackline.stores.contract import MAX_ANSWER_BYTES, KeyValue, KeyWrite, Store, find_key
from ackline.stores.shared.byte_limit import ByteLimit

_encode = msgspec.json.Encoder().encode


class Keyspace:
    """The keys of a caller's tenant."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._runtime = caller.runtime
        self._store = caller.runtime.store
        self._tenant = caller.tenant

    async def find_all(
        self, prefix: tuple[str, ...], limit: int, after: tuple[str, ...] | None
    ) -> list[KeyDocument]:
        """The keys that start with this prefix."""
        self._caller.require(Permission.READ_KEYS)
        return await self._caller.run_slow(
            _list_keys, self._store, self._tenant, prefix, limit, after
        )

    async def get(self, key: tuple[str, ...]) -> KeyDocument:
        """A key, or `NotFound`."""
        self._caller.require(Permission.READ_KEYS)
        found = await self._find(key)
        if found is None:
            raise _not_found(key)
        return key_document(found)

    async def set(
        self, key: tuple[str, ...], value: msgspec.Raw, version: int | None
    ) -> KeyDocument:
        """Write a key, if it still has this version."""
        self._caller.require(Permission.WRITE_KEYS)
        require_user_key(key)
        write = KeyWrite(key=key, value=bytes(value), version=version)
        if not await self._runtime.call(self._store.write_keys, self._tenant, [write]):
            raise Conflict(f"the key {' / '.join(key)} no longer has version {version}")
        self._runtime.prefix_watchers.notify_write(self._tenant, key)
        written = await self._find(key)
        if written is None:
            raise Conflict(f"the key {' / '.join(key)} has just been deleted")
        return key_document(written)

    async def delete(self, key: tuple[str, ...]) -> None:
        """Delete a key, or raise `NotFound`."""
        queues = self._caller.tenant_queues(Permission.WRITE_KEYS)
        if key[:1] == (RESERVED_KEY_PREFIX,) or not await self._runtime.call(
            queues.delete_key, *key
        ):
            raise _not_found(key)
        self._runtime.prefix_watchers.notify_write(self._tenant, key)

    async def watch(self, prefix: tuple[str, ...]) -> AsyncIterator[bytes]:
        """A stream: `set` for each key that exists or changes, `delete` for each deleted one."""
        self._caller.require(Permission.READ_KEYS)
        await self._runtime.prefix_watchers.require_watchable(self._tenant, prefix)
        return self._changes(prefix)

    async def _changes(self, prefix: tuple[str, ...]) -> AsyncIterator[bytes]:
        stream = self._runtime.streams.open(self._caller.principal.until)
        try:
            with self._runtime.prefix_watchers.watching(self._tenant, prefix, stream) as subscriber:
                yield PING
                while not stream.ended:
                    woken = await stream.wait(self._runtime.settings.ping_every)
                    while events := await subscriber.next_events():
                        yield events
                        del events
                        yield EMPTY_CHUNK
                    if not woken:
                        yield PING
                if subscriber.error is not None:
                    yield sse_event("error", _encode(problem_of(subscriber.error)))
        finally:
            self._runtime.streams.close(stream)

    async def _find(self, key: tuple[str, ...]) -> KeyValue | None:
        if key[:1] == (RESERVED_KEY_PREFIX,):
            return None
        return await self._runtime.call(find_key, self._store, self._tenant, key)


def _not_found(key: tuple[str, ...]) -> NotFound:
    return NotFound(f"there is no key {' / '.join(key)}")


def _list_keys(
    store: Store, tenant: str, prefix: tuple[str, ...], limit: int, after: tuple[str, ...] | None
) -> list[KeyDocument]:
    keys = read_keys(store, tenant, prefix, limit, after)
    within = ByteLimit(MAX_ANSWER_BYTES).limit(keys, lambda entry: len(entry.value))
    return list(map(key_document, within))
