"""API keys: created and shown once, kept as a hash in the settings or in the store."""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable

import msgspec

from ackline.core.reserved_keys import KeyFamily, reserved_key
from ackline.service.auth.credentials import SERVICE_TENANT, ApiKey
from ackline.service.auth.principal import Principal
from ackline.service.http.problems import Unauthorized
from ackline.stores.contract import KeyValue, KeyWrite, Store, find_key

PREFIX = "ack_"
"""The prefix of every key, by which people and secret scanners recognize one."""

KEYS_PREFIX = reserved_key(KeyFamily.API_KEYS)
MAX_KEYS = 10_000

CACHE_SIZE = 10_000
CACHE_SECONDS = 5.0
"""Seconds for which a key from the store is cached; a revoked key is refused after that."""

STREAM_AUTH_SECONDS = 600.0
"""Seconds after which the client of a stream has to authenticate again."""

KeyLookup = Callable[[str], Awaitable[ApiKey | None]]


def new_key() -> tuple[str, str]:
    """A new key, and the id in it by which it is looked up."""
    id = secrets.token_hex(8)
    return f"{PREFIX}{id}_{secrets.token_urlsafe(32)}", id


class ApiKeyVerifier:
    """Verifies keys: those of the settings, then those that `lookup` finds in the store."""

    def __init__(self, keys: Iterable[ApiKey], lookup: KeyLookup | None = None) -> None:
        self._keys = {key.id: key for key in keys}
        self._lookup = lookup
        self._cache: OrderedDict[str, tuple[ApiKey | None, float]] = OrderedDict()

    def is_cached(self, text: str) -> bool:
        """Whether this key can be verified without asking the store."""
        id = text.removeprefix(PREFIX).partition("_")[0]
        key = self._keys.get(id) or self._cache.get(id, (None, 0.0))[0]
        return key is not None and key.matches(text)

    async def verify(self, text: str) -> Principal:
        """The principal of this key, or `Unauthorized`."""
        id = text.removeprefix(PREFIX).partition("_")[0]
        key = self._keys.get(id) or await self._stored(id)
        if key is None or not key.matches(text) or key.expired(time.time()):
            raise Unauthorized("the API key is unknown, revoked or expired")
        return key.principal(time.time() + STREAM_AUTH_SECONDS)

    async def _stored(self, id: str) -> ApiKey | None:
        if self._lookup is None or not _is_id(id):
            return None
        key, valid_until = self._cache.get(id, (None, 0.0))
        if valid_until <= time.monotonic():
            key = await self._lookup(id)
            self._cache[id] = (key, time.monotonic() + CACHE_SECONDS)
            self._cache.move_to_end(id)
            if len(self._cache) > CACHE_SIZE:
                self._cache.popitem(last=False)
        return key


def _is_id(text: str) -> bool:
    return len(text) == 16 and not set(text) - set("0123456789abcdef")


# --- keys in the store ---


def read_key(store: Store, id: str) -> ApiKey | None:
    """The key of this id, if it exists."""
    found = find_key(store, SERVICE_TENANT, (*KEYS_PREFIX, id))
    return None if found is None else _decode(found)


def list_keys(store: Store) -> list[ApiKey]:
    """All keys."""
    return [_decode(entry) for entry in store.read_keys(SERVICE_TENANT, KEYS_PREFIX, MAX_KEYS)]


def store_key(store: Store, key: ApiKey) -> None:
    """Store a new key."""
    write = KeyWrite(key=(*KEYS_PREFIX, key.id), value=msgspec.json.encode(key))
    store.write_keys(SERVICE_TENANT, [write])


def revoke_key(store: Store, id: str) -> bool:
    """Delete a key; False if there is none. Every process refuses it within seconds."""
    if read_key(store, id) is None:
        return False
    return store.write_keys(SERVICE_TENANT, [KeyWrite(key=(*KEYS_PREFIX, id), value=None)])


def _decode(entry: KeyValue) -> ApiKey:
    return msgspec.json.decode(entry.value, type=ApiKey)
