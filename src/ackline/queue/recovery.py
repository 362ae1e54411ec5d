"""Jobs that were taken back from workers: how many, in which way, and which ones still are not."""

from __future__ import annotations

import enum
import logging
from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec

from ackline.errors import StoreError
from ackline.job import QueueKey, State
from ackline.lifecycle import Verdict
from ackline.limits import OWN_KEYS
from ackline.queue.broken_notes import UNREADABLE, OnBroken, warn_of_broken
from ackline.stores.base import Key, KeyWrite, Store, find_key

logger = logging.getLogger("ackline")


class Way(enum.StrEnum):
    """How a job came back from a worker that did not settle it."""

    MONITOR = "monitor"
    """The supervisor saw the worker's process die, or the service saw its stream end."""
    HEARTBEAT = "heartbeat"
    """The worker gave no sign of life any more."""
    SWEEP = "sweep"
    """A maintenance loop found the lease past its deadline."""
    CLAIM = "claim"
    """A claim came across the lapsed lease."""
    HAND = "hand"
    """Somebody asked for it: `recover`, or `expire`."""


MOST_COUNTED = 2**53
"""More than that, and a float could not tell one from the next."""

Count = Annotated[int, msgspec.Meta(ge=0, le=MOST_COUNTED)]


class Recovered(msgspec.Struct, frozen=True):
    """How many jobs came back by one way, how many of them to the DLQ, and when the last did."""

    jobs: Count
    dead_lettered: Count
    last_at: float


class RecoveryStats(msgspec.Struct, frozen=True, kw_only=True):
    """What was recovered in a queue since it exists, and what waits to be."""

    ways: Mapping[Way, Recovered]
    overdue: int
    """Leases past their deadline that nobody has taken back yet; counted up to 200."""
    longest_overdue: float
    """Seconds since the earliest of their deadlines."""
    stuck: tuple[str, ...]
    """The jobs whose lease is overdue for longer than the queue's `stuck_after`."""

    @property
    def jobs(self) -> int:
        """How many came back by any way."""
        return sum(recovered.jobs for recovered in self.ways.values())


_Ways = dict[str, Recovered]
"""As stored: a newer Ackline may know more ways."""


def read_ways(value: bytes) -> _Ways:
    """Decode the stored counts; raises if the value is something else."""
    return msgspec.json.decode(value, type=_Ways)


def recovered(
    store: Store, queue: QueueKey, on_broken: OnBroken = warn_of_broken
) -> Mapping[Way, Recovered]:
    """How many jobs of a queue came back, by way; ways without any are left out."""
    ways = _read(store, queue, on_broken)[0]
    return {way: ways[way] for way in Way if way in ways}


def count_recovered(store: Store, queue: QueueKey, way: Way, verdicts: Sequence[Verdict]) -> None:
    """Count the leases that were taken back.

    Counting follows the act itself, so a process that is killed in between leaves it uncounted;
    the journal has every one. If counting fails, the recovery still stands.
    """
    applied = [verdict for verdict in verdicts if verdict.applied]
    if not applied:
        return
    dead = sum(verdict.state is State.FAILED for verdict in applied)
    try:
        now = store.info().now
        while not _add(store, queue, way, Recovered(len(applied), dead, now)):
            continue
    except StoreError as error:
        logger.warning("%s: %d recovered jobs are not counted: %s", queue, len(applied), error)


def _add(store: Store, queue: QueueKey, way: Way, more: Recovered) -> bool:
    ways, version = _read(store, queue)
    before = ways.get(way, Recovered(0, 0, 0.0))
    ways[way] = Recovered(
        before.jobs + more.jobs, before.dead_lettered + more.dead_lettered, more.last_at
    )
    write = KeyWrite(key=_key(queue), value=msgspec.json.encode(ways), version=version)
    return store.write_keys(queue.tenant, [write])


def _read(store: Store, queue: QueueKey, on_broken: OnBroken = warn_of_broken) -> tuple[_Ways, int]:
    found = find_key(store, queue.tenant, _key(queue))
    return ({}, 0) if found is None else (_readable(queue, found, on_broken), found.version)


def _readable(queue: QueueKey, found: Key, on_broken: OnBroken) -> _Ways:
    try:
        return read_ways(found.value)
    except UNREADABLE as error:
        # The earlier counts are lost; counting begins at zero again.
        on_broken(queue.tenant, found, error)
        return {}


def _key(queue: QueueKey) -> tuple[str, ...]:
    return (OWN_KEYS, "recovered", queue.name)
