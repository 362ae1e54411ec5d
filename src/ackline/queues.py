"""Opening a store, and the queues in it."""

from __future__ import annotations

import difflib
import os
import weakref
from collections.abc import Iterator
from typing import Any, Self, TypedDict, Unpack, overload

from ackline.core import codec
from ackline.core.clock import Clock
from ackline.core.codec import Serde, SerdeLike, serde_from
from ackline.core.config import suggests_options
from ackline.core.errors import ConfigError
from ackline.core.job import QueueKey
from ackline.core.limits import RESERVED_KEY_PREFIX, require_name, require_number, require_user_key
from ackline.queue import Queue
from ackline.queue.base import P, R
from ackline.queue.serdes import Serdes
from ackline.stores.contract import (
    KeyValue,
    KeyWrite,
    QueueInfo,
    Store,
    StoreInfo,
    TenantBound,
    find_key,
)
from ackline.stores.registry import StoreSource, store_from

DEFAULT_TENANT = "default"

MAX_LISTED = 10
"""How many existing queues a message lists when the named one does not exist."""


@suggests_options
def open(
    url: StoreSource,
    *,
    tenant: str | None = None,
    clock: Clock | None = None,
    token: str | None = None,
) -> Queues:
    """Open a store by its URL, or a SQLite file by its path.

    The tenant is `default` unless you name another. A `token` is for a service, `http://` or
    `https://`; there, the tenant is the token's.

    It also takes a store, which is closed with its queues, or a `redis.Redis`: the store opens
    connections of its own with that client's settings, and leaves the client alone.

    >>> queues = open("memory://")
    >>> queues["email"]
    <Queue 'email' in memory>
    """
    if tenant is not None:
        require_name("tenant", tenant)
    store = store_from(url, clock, token)
    store.open()
    return Queues(store, tenant or tenant_of_store(store))


def tenant_of_store(store: Store) -> str:
    """The tenant when none is named: that of the store's credentials, if it has any."""
    return store.tenant if isinstance(store, TenantBound) else DEFAULT_TENANT


class QueueOptions(TypedDict, total=False):
    """Options of a queue besides its types."""

    serde: Serde | SerdeLike | str | None
    result_serde: Serde | SerdeLike | str | None
    max_payload: int


class Queues:
    """The queues of one tenant in one open store."""

    def __init__(self, store: Store, tenant: str = DEFAULT_TENANT) -> None:
        if isinstance(store, str | os.PathLike):
            raise ConfigError(f"Queues needs an open store: write ackline.open({str(store)!r})")
        require_name("tenant", tenant)
        self.store = store
        self.tenant = tenant
        self._queues: dict[str, Queue[Any, Any]] = {}
        self._created: weakref.WeakSet[Queue[Any, Any]] = weakref.WeakSet()
        """All queues created so far, including those replaced by another of the same name."""

    def __getitem__(self, name: str) -> Queue[Any, Any]:
        """The queue of this name; it is created when first used."""
        if name not in self._queues:
            self._queues[name] = self.queue(name)
        return self._queues[name]

    @overload
    def queue(
        self,
        name: str,
        *,
        payload: type[P],
        result: type[R],
        **options: Unpack[QueueOptions],
    ) -> Queue[P, R]: ...

    @overload
    def queue(
        self,
        name: str,
        *,
        payload: type[P],
        result: Any = Any,
        **options: Unpack[QueueOptions],
    ) -> Queue[P, Any]: ...

    @overload
    def queue(
        self,
        name: str,
        *,
        payload: Any = Any,
        result: type[R],
        **options: Unpack[QueueOptions],
    ) -> Queue[Any, R]: ...

    @overload
    def queue(
        self,
        name: str,
        *,
        payload: Any = Any,
        result: Any = Any,
        **options: Unpack[QueueOptions],
    ) -> Queue[Any, Any]: ...

    @suggests_options
    def queue(
        self,
        name: str,
        *,
        payload: Any = Any,
        result: Any = Any,
        serde: Serde | SerdeLike | str | None = None,
        result_serde: Serde | SerdeLike | str | None = None,
        max_payload: int = codec.DEFAULT_MAX_PAYLOAD,
    ) -> Queue[Any, Any]:
        """A queue with declared types, another serde or another limit.

        `serde` and `result_serde` turn values into bytes; `max_payload` is how many bytes a
        payload or result may have.

        >>> queues = open("memory://")
        >>> queues.queue("numbers", payload=list[int], serde="msgpack")
        <Queue 'numbers' in memory>
        """
        require_name("queue", name)
        require_number("max_payload", max_payload, 1)
        payload_serde = serde_from(serde)
        queue: Queue[Any, Any] = Queue(
            self.store,
            QueueKey(self.tenant, name),
            Serdes(
                payload_serde,
                serde_from(result_serde) if result_serde else payload_serde,
                payload_type=payload,
                result_type=result,
                max_payload=max_payload,
            ),
        )
        self._queues[name] = queue
        self._created.add(queue)
        return queue

    def names(self) -> list[str]:
        """The names of all queues that the store knows; `list(queues)` gives them, too.

        >>> open("memory://").names()
        []
        """
        return [info.key.name for info in self.describe()]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def describe(self) -> list[QueueInfo]:
        """All queues with their settings and counts."""
        return self.store.describe(self.tenant)

    def read_keys(self, *prefix: str, limit: int = 1000) -> list[KeyValue]:
        """The entries whose keys start with this prefix: the payloads of undelivered jobs.

        A job leaves its payload there if it was enqueued with `keys_if_undelivered` and went
        to the DLQ. Ackline's own keys, under "ackline", are omitted unless that is the prefix.

        >>> open("memory://").read_keys("failed payments")
        []
        """
        if prefix:
            return self.store.read_keys(self.tenant, prefix, limit)
        entries: list[KeyValue] = []
        after: tuple[str, ...] | None = None
        while len(entries) < limit and (
            found := self.store.read_keys(self.tenant, (), limit, after)
        ):
            entries += [entry for entry in found if entry.key[:1] != (RESERVED_KEY_PREFIX,)]
            after = found[-1].key
        return entries[:limit]

    def delete_key(self, *key: str) -> bool:
        """Delete a key; False if there was none. Keys of Ackline itself are rejected."""
        require_user_key(key)
        if find_key(self.store, self.tenant, key) is None:
            return False
        return self.store.write_keys(self.tenant, [KeyWrite(key=key, value=None)])

    def info(self) -> StoreInfo:
        """What the store is, where it is, and how durable it is."""
        return self.store.info()

    def close(self) -> None:
        """Close the queues and the store."""
        for queue in list(self._created):
            queue.close()
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def queue_not_found_message(queues: Queues, name: str) -> str:
    """The message for a queue that does not exist: where it is missing, and which ones exist."""
    names = sorted(queues)
    close = difflib.get_close_matches(name, names, n=1)
    if close:
        hint = f"Did you mean {close[0]!r}?"
    elif names:
        more = ", …" if len(names) > MAX_LISTED else ""
        hint = f"There are {', '.join(map(repr, names[:MAX_LISTED]))}{more}."
    else:
        hint = "It has no queues yet; a queue is created with its first job."
    where = "" if queues.tenant == DEFAULT_TENANT else f" of tenant {queues.tenant!r}"
    return f"{queues.info().location}{where} has no queue {name!r}. {hint}"
