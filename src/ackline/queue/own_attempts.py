"""How many attempts processes give jobs on their own account, noted beside their queue.

What is stored about a queue holds for all. What a handler or a service was told, only its own
process knows, for as long as that lives, whatever others store meanwhile. So each notes it before
it goes by it, and the most that anyone has noted is what an audit can hold a job to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec

from ackline.job import QueueKey
from ackline.limits import OWN_KEYS
from ackline.queue.broken_notes import UNREADABLE, warn_of_broken
from ackline.stores.base import KeyWrite, Store, find_key

EVERY_KIND = ""
"""Stands for a kind, whose name is never empty: what holds where nothing else is said."""

NOTE = "attempts"

_Attempts = dict[str, Annotated[int, msgspec.Meta(ge=0)]]


def read_attempts(value: bytes) -> Mapping[str, int]:
    """The attempts by kind, as they were noted; raises if it is something else."""
    return msgspec.json.decode(value, type=_Attempts)


def noted_attempts(store: Store, queue: QueueKey) -> Mapping[str, int]:
    """The most attempts that processes have given jobs, by kind; 0 leaves them to the queue."""
    return _read(store, queue)[0]


def note_attempts(store: Store, queue: QueueKey, own: Mapping[str, int]) -> None:
    """Note what this process gives jobs, where it is more than anyone has noted."""
    while own and not _noted(store, queue, own):
        continue


def _noted(store: Store, queue: QueueKey, own: Mapping[str, int]) -> bool:
    before, version = _read(store, queue)
    most = {**before, **{kind: max(own[kind], before.get(kind, 0)) for kind in own}}
    if most == before:
        return True
    write = KeyWrite(key=_key(queue), value=msgspec.json.encode(most), version=version)
    return store.write_keys(queue.tenant, [write])


def _read(store: Store, queue: QueueKey) -> tuple[Mapping[str, int], int]:
    found = find_key(store, queue.tenant, _key(queue))
    if found is None:
        return {}, 0
    try:
        return read_attempts(found.value), found.version
    except UNREADABLE as error:
        # Who goes by attempts of its own notes them again within seconds.
        warn_of_broken(queue.tenant, found, error)
        return {}, found.version


def _key(queue: QueueKey) -> tuple[str, ...]:
    return (OWN_KEYS, NOTE, queue.name)
