"""API keys: made once, shown once, kept as a hash in the settings or in the store."""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable

import msgspec

from ackline.limits import OWN_KEYS
from ackline.service.auth.credentials import SERVICE_TENANT, ApiKey
from ackline.service.auth.principal import Principal
from ackline.service.problems import Unauthorized
from ackline.stores.base import Key, KeyWrite, Store, find_key

PREFIX = "ack_"
"""The start of every key, by which people and secret scanners recognize one."""

ROOM = (OWN_KEYS, "api-keys")
MOST_KEYS = 10_000

REMEMBERED = 10_000
REMEMBERED_FOR = 5.0
"""Seconds after which the store is asked again; by then a revoked key is refused."""

TRUSTED_FOR = 600.0
"""Seconds that a stream may last before its client has to authenticate again."""

Look = Callable[[str], Awaitable[ApiKey | None]]


def new_key() -> tuple[str, str]:
    """A new key, and the id inside it by which it is looked up."""
    id = secrets.token_hex(8)
    return f"{PREFIX}{id}_{secrets.token_urlsafe(32)}", id


class ApiKeys:
    """Checks keys: those of the settings, then those that `look` finds in the store."""

    def __init__(self, keys: Iterable[ApiKey], look: Look | None = None) -> None:
        self._keys = {key.id: key for key in keys}
        self._look = look
        self._found: OrderedDict[str, tuple[ApiKey | None, float]] = OrderedDict()

    def knows(self, text: str) -> bool:
        """Whether this key is known to be right without asking the store."""
        id = text.removeprefix(PREFIX).partition("_")[0]
        key = self._keys.get(id) or self._found.get(id, (None, 0.0))[0]
        return key is not None and key.opens_with(text)

    async def check(self, text: str) -> Principal:
        """The principal of this key, or `Unauthorized`."""
        id = text.removeprefix(PREFIX).partition("_")[0]
        key = self._keys.get(id) or await self._stored(id)
        if key is None or not key.opens_with(text) or key.expired(time.time()):
            raise Unauthorized("the API key is unknown, revoked or expired")
        return key.principal(time.time() + TRUSTED_FOR)

    async def _stored(self, id: str) -> ApiKey | None:
        if self._look is None or not _is_id(id):
            return None
        key, good_until = self._found.get(id, (None, 0.0))
        if good_until <= time.monotonic():
            key = await self._look(id)
            self._found[id] = (key, time.monotonic() + REMEMBERED_FOR)
            self._found.move_to_end(id)
            if len(self._found) > REMEMBERED:
                self._found.popitem(last=False)
        return key


def _is_id(text: str) -> bool:
    return len(text) == 16 and not set(text) - set("0123456789abcdef")


# --- in the store ---


def read_key(store: Store, id: str) -> ApiKey | None:
    """One key, if it exists."""
    found = find_key(store, SERVICE_TENANT, (*ROOM, id))
    return None if found is None else _decode(found)


def list_keys(store: Store) -> list[ApiKey]:
    """All keys."""
    return [_decode(entry) for entry in store.read_keys(SERVICE_TENANT, ROOM, MOST_KEYS)]


def keep_key(store: Store, key: ApiKey) -> None:
    """Store a new key."""
    write = KeyWrite(key=(*ROOM, key.id), value=msgspec.json.encode(key))
    store.write_keys(SERVICE_TENANT, [write])


def revoke_key(store: Store, id: str) -> bool:
    """Delete a key; False if there is none. Within seconds every process refuses it."""
    if read_key(store, id) is None:
        return False
    return store.write_keys(SERVICE_TENANT, [KeyWrite(key=(*ROOM, id), value=None)])


def _decode(entry: Key) -> ApiKey:
    return msgspec.json.decode(entry.value, type=ApiKey)
