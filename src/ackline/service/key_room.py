"""A tenant's keys: read, written, and watched without an end."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec

from ackline.limits import OWN_KEYS, require_others_key
from ackline.service.caller import Caller, Scope
from ackline.service.documents import raw_or_base64
from ackline.service.news import News
from ackline.service.problems import Conflict, NotFound, Unfit, problem_of
from ackline.service.streams import PING, event
from ackline.stores.base import Key, KeyWrite

MOST_WATCHED = 10_000
"""Keys under one watched prefix."""

_encode = msgspec.json.Encoder().encode


class KeyDocument(msgspec.Struct):
    """One key: its parts, its value, and a number that changes with each write."""

    key: tuple[str, ...]
    value: msgspec.Raw
    version: int


class GoneDocument(msgspec.Struct):
    """A key that is gone."""

    key: tuple[str, ...]


class Room:
    """The keys that one caller can reach."""

    def __init__(self, caller: Caller) -> None:
        caller.require_all_queues()
        self._caller = caller
        self._runtime = caller.runtime
        self._store = caller.runtime.store
        self._tenant = caller.tenant

    async def find_all(self, prefix: tuple[str, ...], limit: int) -> list[KeyDocument]:
        """The keys that start with this prefix."""
        room = self._caller.room(Scope.READ)
        if prefix[:1] == (OWN_KEYS,):
            return []
        found = await self._runtime.call(room.keys, *prefix, limit=limit)
        return [_document(entry) for entry in found]

    async def get(self, key: tuple[str, ...]) -> KeyDocument:
        """One key, or `NotFound`."""
        self._caller.require(Scope.READ)
        found = await self._find(key)
        if found is None:
            raise _absent(key)
        return _document(found)

    async def set(
        self, key: tuple[str, ...], value: msgspec.Raw, version: int | None
    ) -> KeyDocument:
        """Write one key, if it still has this version."""
        self._caller.require(Scope.ADMIN)
        require_others_key(key)
        write = KeyWrite(key=key, value=bytes(value), version=version)
        if not await self._runtime.call(self._store.write_keys, self._tenant, [write]):
            raise Conflict(f"the key {' / '.join(key)} no longer has version {version}")
        written = await self._find(key)
        if written is None:
            raise Conflict(f"the key {' / '.join(key)} has just been deleted")
        return _document(written)

    async def delete(self, key: tuple[str, ...]) -> None:
        """Remove one key, or `NotFound`."""
        room = self._caller.room(Scope.ADMIN)
        if key[:1] == (OWN_KEYS,) or not await self._runtime.call(room.delete_key, *key):
            raise _absent(key)

    async def watch(self, prefix: tuple[str, ...]) -> AsyncIterator[bytes]:
        """`set` for each key that is there or changes, `delete` for each that goes."""
        await self._watched(prefix)  # refused now, not when the answer has begun
        return self._changes(prefix)

    async def _watched(self, prefix: tuple[str, ...]) -> list[KeyDocument]:
        """All keys under a prefix: with only some of them, nobody could tell which are gone."""
        found = await self.find_all(prefix, MOST_WATCHED + 1)
        if len(found) > MOST_WATCHED:
            raise Unfit(
                f"more than {MOST_WATCHED:,} keys start with this prefix: watch a longer one",
                at="prefix",
            )
        return found

    async def _changes(self, prefix: tuple[str, ...]) -> AsyncIterator[bytes]:
        stream = self._runtime.streams.open(self._caller.principal.until)
        known: dict[tuple[str, ...], int] = {}
        try:
            async with News(self._runtime, stream, self._tenant, "ends") as news:
                yield PING
                while not stream.ended:
                    try:
                        found = await self._watched(prefix)
                    except Unfit as error:
                        yield event("error", _encode(problem_of(error)))
                        return
                    said = b"".join(_changes(known, found))
                    known = {entry.key: entry.version for entry in found}
                    if said or news.silent:
                        news.spoke()
                        yield said or PING
                    await news.wait()
        finally:
            self._runtime.streams.close(stream)

    async def _find(self, key: tuple[str, ...]) -> Key | None:
        if key[:1] == (OWN_KEYS,):
            return None
        found = await self._runtime.call(self._store.read_keys, self._tenant, key, 1)
        return next((entry for entry in found if entry.key == key), None)


def _absent(key: tuple[str, ...]) -> NotFound:
    return NotFound(f"there is no key {' / '.join(key)}")


def _document(entry: Key) -> KeyDocument:
    return KeyDocument(entry.key, raw_or_base64(entry.value), entry.version)


def _changes(known: dict[tuple[str, ...], int], found: list[KeyDocument]) -> list[bytes]:
    new = [entry for entry in found if known.get(entry.key) != entry.version]
    gone = known.keys() - {entry.key for entry in found}
    said = [event("set", _encode(entry), str(entry.version)) for entry in new]
    return said + [event("delete", _encode(GoneDocument(key))) for key in sorted(gone)]
