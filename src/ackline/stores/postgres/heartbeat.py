"""The heartbeats of workers."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ackline.job import QueueKey
from ackline.lifecycle import kept_until
from ackline.stores.base import BeatReply, Hold, WorkerBeat
from ackline.stores.postgres.arrays import Ints
from ackline.stores.postgres.engine import Engine
from ackline.stores.postgres.finding import forget_numbers, numbers_of
from ackline.stores.postgres.leases import Leases
from ackline.stores.postgres.queues import QueueEntry
from ackline.stores.postgres.transaction import Transaction
from ackline.stores.shared.records import encode_beat

PAUSES = (0.0, 0.005, 0.01, 0.02, 0.05, 0.1)
"""Seconds before each further try at leases that others are changing."""

Holds = Mapping[int, Hold]
"""Holds by their index in the worker's list."""


class Extended(NamedTuple):
    """What became of holds, by their indexes."""

    lost: list[int]
    cancelled: list[int]
    busy: list[int]
    """Leases that exist, but that another transaction is changing."""


def heartbeat(
    engine: Engine, queue: QueueKey, beat: WorkerBeat, holds: Sequence[Hold]
) -> BeatReply:
    """Note that a worker is alive, and extend its leases.

    It never waits for a lock: a caller's transaction may hold one for long, and the other leases
    must not lapse because of that. A lease that stays locked is left as it is: it is not lost.
    """
    by_index = dict(enumerate(holds))
    found = engine.write(lambda tx: _beat(tx, engine.queues.make(tx, queue), beat, by_index))
    for pause in PAUSES:
        if not found.busy:
            break
        time.sleep(pause)
        found = _again(engine, queue, by_index, found)
    return BeatReply(sorted(found.lost), sorted(found.cancelled))


def _again(engine: Engine, queue: QueueKey, holds: Holds, found: Extended) -> Extended:
    left = {index: holds[index] for index in found.busy}
    more = engine.write(lambda tx: _extend(tx, engine.queues.make(tx, queue), left))
    return Extended(found.lost + more.lost, found.cancelled + more.cancelled, more.busy)


def _beat(tx: Transaction, entry: QueueEntry, beat: WorkerBeat, holds: Holds) -> Extended:
    name = {"queue": entry.num, "id": beat.id.encode()}
    if beat.ttl > 0:
        values = {"beat": encode_beat(beat), "seen": tx.now, "expires": tx.now + beat.ttl}
        tx.send("beat", name | values)
    else:
        tx.send("goodbye", name)
    return _extend(tx, entry, holds)


def _extend(tx: Transaction, entry: QueueEntry, holds: Holds) -> Extended:
    """Extend the leases that nobody else is changing."""
    found = Extended([], [], [])
    leases, missing = Leases(tx, entry), dict[int, Hold]()
    nums = numbers_of(tx, entry, [hold.id for hold in holds.values()])
    leases.add_rows(_rows(tx, entry, "try_leases", holds, nums))
    for index, hold in holds.items():
        num = nums.get(hold.id, 0)
        lease = leases.find(num)
        if lease is None or lease.token != hold.token:
            missing[index] = hold
            continue
        if lease.deadline <= tx.now:
            if hold.wait:
                found.lost.append(index)
            continue
        if num in lease.cancel_requested:
            found.cancelled.append(index)
        leases.extend(num, kept_until(lease.deadline, tx.now, hold.seconds))
    leases.write()
    _look_for(tx, entry, missing, found)
    return found


def _look_for(tx: Transaction, entry: QueueEntry, missing: Holds, found: Extended) -> None:
    """Sort missing leases into lost ones and those that another transaction is changing.

    Holds that do not `wait` are neither: their jobs' own transactions end these leases.
    """
    waiting = {index: hold for index, hold in missing.items() if hold.wait}
    if not waiting:
        return
    ids = [hold.id for hold in waiting.values()]
    forget_numbers(entry, ids)
    nums, leases = numbers_of(tx, entry, ids), Leases(tx, entry)
    leases.add_rows(_rows(tx, entry, "see_leases", waiting, nums))
    for index, hold in waiting.items():
        lease = leases.find(nums.get(hold.id, 0))
        held = lease is not None and lease.token == hold.token
        (found.busy if held else found.lost).append(index)


def _rows(
    tx: Transaction, entry: QueueEntry, statement: str, holds: Holds, nums: Mapping[str, int]
) -> list[tuple[object, ...]]:
    """The leases of these tokens that have these jobs."""
    existing = [hold for hold in holds.values() if hold.id in nums]
    if not existing:
        return []
    tokens = Ints(sorted({hold.token for hold in existing}))
    jobs = Ints([nums[hold.id] for hold in existing])
    return tx.rows(statement, {"queue": entry.num, "tokens": tokens, "jobs": jobs})
