"""How many attempts single processes give jobs by their own options, noted beside their queue.

A queue's stored settings hold for all processes. The options of a handler or a service are known
only to its own process, and hold there as long as it lives, whatever others store meanwhile. So
each process notes its attempts before it applies them, and an audit holds a job to the highest
number that was noted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec

from ackline.core.job import QueueKey
from ackline.core.limits import RESERVED_KEY_PREFIX
from ackline.stores.contract import KeyWrite, Store, find_key

ALL_KINDS = ""
"""In place of a kind, whose name is never empty: all kinds that have no number of their own."""

METADATA_KEY = "attempts"

_Attempts = dict[str, Annotated[int, msgspec.Meta(ge=0)]]


def decode_max_attempts(value: bytes) -> Mapping[str, int]:
    """Decode noted attempts by kind; raises if the value is something else."""
    return msgspec.json.decode(value, type=_Attempts)


def load_max_attempts(store: Store, queue: QueueKey) -> Mapping[str, int]:
    """The most attempts that processes have given jobs, by kind; 0 leaves them to the queue."""
    return _read(store, queue)[0]


def record_max_attempts(store: Store, queue: QueueKey, own: Mapping[str, int]) -> None:
    """Note the attempts that this process gives jobs, where they are more than any noted so far."""
    while own and not _try_record(store, queue, own):
        continue


def _try_record(store: Store, queue: QueueKey, own: Mapping[str, int]) -> bool:
    before, version = _read(store, queue)
    most = {**before, **{kind: max(own[kind], before.get(kind, 0)) for kind in own}}
    if most == before:
        return True
    write = KeyWrite(key=_key(queue), value=msgspec.json.encode(most), version=version)
    return store.write_keys(queue.tenant, [write])


def _read(store: Store, queue: QueueKey) -> tuple[Mapping[str, int], int]:
    found = find_key(store, queue.tenant, _key(queue))
    return ({}, 0) if found is None else (decode_max_attempts(found.value), found.version)


def _key(queue: QueueKey) -> tuple[str, ...]:
    return (RESERVED_KEY_PREFIX, METADATA_KEY, queue.name)
