"""The names of Redis keys: of queues, of tenants, and of what all share.

`docs/redis-keys.md` lists every key with its type.
"""

from __future__ import annotations

import functools
import zlib
from urllib.parse import quote, unquote

import msgspec

from ackline.core.job import QueueKey
from ackline.core.reserved_keys import KeyFamily, reserved_key

SCHEMA = 1
"""The version of this layout of keys."""

QUEUE_MARK_BITS = 20
MAX_QUEUE_MARK = (1 << QUEUE_MARK_BITS) - 1


@functools.lru_cache(maxsize=4096)
def _encode(name: str) -> str:
    # Without `/` and `}`, no two names collide and the hash tag ends where it should.
    return quote(name, safe="")


class KeyNames(msgspec.Struct, frozen=True):
    """All names under one prefix.

    In a cluster, queues share only the registry, because a script can reach only one slot.
    """

    prefix: str
    clustered: bool = False

    @property
    def schema(self) -> str:
        """The key of the layout's version."""
        return f"{self.prefix}:schema"

    @property
    def registry(self) -> str:
        """The set of all queues."""
        return f"{self.prefix}:queues"

    def entry(self, queue: QueueKey) -> str:
        """A queue's name in the registry."""
        return f"{_encode(queue.tenant)}/{_encode(queue.name)}"

    def queue_of(self, entry: str) -> QueueKey:
        """The queue of an entry in the registry."""
        tenant, _, name = entry.partition("/")
        return QueueKey(unquote(tenant), unquote(name))

    def base(self, queue: QueueKey) -> str:
        """The base name of all keys of a queue; the braces keep them in one slot."""
        return f"{self.prefix}:{{{self.entry(queue)}}}"

    def counters(self, queue: QueueKey) -> str:
        """The hash with the last numbers of jobs and journal batches."""
        return f"{self.base(queue) if self.clustered else self.prefix}:counters"

    def queue_mark(self, queue: QueueKey) -> int:
        """A number that distinguishes batches which queues of a cluster write at the same time."""
        return zlib.crc32(self.entry(queue).encode()) & MAX_QUEUE_MARK if self.clustered else 0

    def key_values_base(self, tenant: str) -> str:
        """The base name of a tenant's key-value store."""
        return f"{self.prefix}:{{{_encode(tenant)}}}"

    def undelivered_keys_base(self, queue: QueueKey) -> str:
        """The base name of the keys that a queue's scripts write for undelivered jobs."""
        return self.base(queue) if self.clustered else self.key_values_base(queue.tenant)

    def queue_keys_base(self, queue: QueueKey) -> str:
        """The base name of the keys that an enqueue into a queue can write."""
        return (
            f"{self.base(queue)}:queue_keys"
            if self.clustered
            else self.key_values_base(queue.tenant)
        )

    def base_of_key(self, tenant: str, key: tuple[str, ...]) -> str:
        """The base name of a key, or of all keys that start with it."""
        if key[:2] == reserved_key(KeyFamily.QUEUE) and len(key) > 2:
            return self.queue_keys_base(QueueKey(tenant, key[2]))
        return self.key_values_base(tenant)

    def channel(self, queue: QueueKey, topic: str) -> str:
        """The channel of a queue's notifications on a topic."""
        return f"{self.base(queue)}:{topic}"
