"""The signs of life of workers."""

from __future__ import annotations

from collections.abc import Sequence

from ackline.job import QueueKey
from ackline.stores.base import BeatReply, Hold, WorkerBeat
from ackline.stores.postgres.arrays import Ints
from ackline.stores.postgres.codes import encode_beat
from ackline.stores.postgres.finding import numbers_of
from ackline.stores.postgres.leases import Leases
from ackline.stores.postgres.queues import QueueEntry, Queues
from ackline.stores.postgres.transaction import Transaction


def heartbeat(
    tx: Transaction, queues: Queues, queue: QueueKey, beat: WorkerBeat, holds: Sequence[Hold]
) -> BeatReply:
    """Note a sign of life and extend leases."""
    entry = queues.make(tx, queue)
    name = {"queue": entry.num, "id": beat.id.encode()}
    if beat.ttl > 0:
        sign = {"beat": encode_beat(beat), "seen": tx.now, "expires": tx.now + beat.ttl}
        tx.send("beat", name | sign)
    else:
        tx.send("goodbye", name)
    return _extend(tx, entry, holds) if holds else BeatReply([], [])


def _extend(tx: Transaction, entry: QueueEntry, holds: Sequence[Hold]) -> BeatReply:
    leases, reply = Leases(tx, entry), BeatReply([], [])
    nums = numbers_of(tx, entry, [hold.id for hold in holds])
    for wait, statement in ((True, "lock_leases"), (False, "try_leases")):
        some = [hold for hold in holds if hold.wait is wait and hold.id in nums]
        if some:
            tokens = Ints(sorted({hold.token for hold in some}))
            jobs = Ints([nums[hold.id] for hold in some])
            values = {"queue": entry.num, "tokens": tokens, "jobs": jobs}
            leases.add_rows(tx.rows(statement, values))
    for index, hold in enumerate(holds):
        num = nums.get(hold.id)
        lease = None if num is None else leases.find(num)
        if num is None or lease is None or lease.token != hold.token or lease.deadline <= tx.now:
            if hold.wait:
                reply.lost.append(index)
            continue
        if num in lease.asked:
            reply.cancelled.append(index)
        leases.extend(num, tx.now + hold.seconds)
    leases.write()
    return reply
