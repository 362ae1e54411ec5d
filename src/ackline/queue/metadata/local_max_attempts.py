"""The `max_attempts` that single processes set by options of their own, recorded for the queue.

A queue's stored settings apply to all processes. The options of a handler or a service are known
only to its own process, and apply there until it ends, whatever others store. So each process
records its attempts before it uses them, and an audit allows a job the highest recorded number.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec

from ackline.core.job import QueueKey
from ackline.core.reserved_keys import KeyFamily, reserved_key
from ackline.stores.contract import KeyWrite, Store, find_key

ALL_KINDS = ""
"""Stands for all kinds that have no number of their own; no kind has an empty name."""

_Attempts = dict[str, Annotated[int, msgspec.Meta(ge=0)]]


def decode_max_attempts(value: bytes) -> Mapping[str, int]:
    """Decode the recorded attempts by kind; raises if the value is invalid."""
    return msgspec.json.decode(value, type=_Attempts)


def load_max_attempts(store: Store, queue: QueueKey) -> Mapping[str, int]:
    """The highest `max_attempts` that processes have set, by kind; 0 leaves it to the queue."""
    return _read(store, queue)[0]


def record_max_attempts(store: Store, queue: QueueKey, own: Mapping[str, int]) -> None:
    """Record the attempts that this process sets, where they are more than recorded so far."""
    while own and not _try_record(store, queue, own):
        continue


def _try_record(store: Store, queue: QueueKey, own: Mapping[str, int]) -> bool:
    recorded, version = _read(store, queue)
    highest = {**recorded, **{kind: max(own[kind], recorded.get(kind, 0)) for kind in own}}
    if highest == recorded:
        return True
    write = KeyWrite(key=_key(queue), value=msgspec.json.encode(highest), version=version)
    return store.write_keys(queue.tenant, [write])


def _read(store: Store, queue: QueueKey) -> tuple[Mapping[str, int], int]:
    found = find_key(store, queue.tenant, _key(queue))
    return ({}, 0) if found is None else (decode_max_attempts(found.value), found.version)


def _key(queue: QueueKey) -> tuple[str, ...]:
    return reserved_key(KeyFamily.LOCAL_MAX_ATTEMPTS, queue.name)
