"""Heartbeats of workers elsewhere: each extends leases of the kinds that it may touch."""

from __future__ import annotations

from collections.abc import Sequence

from ackline.job import QueueKey
from ackline.service.auth.caller import Caller
from ackline.stores.base import BeatReply, Hold, WorkerBeat


def heartbeat(
    caller: Caller, queue: QueueKey, beat: WorkerBeat, holds: Sequence[Hold]
) -> BeatReply:
    """Note that a worker is alive, and extend its leases; those of other kinds are lost to it."""
    store = caller.runtime.store
    if caller.principal.kinds is None:
        return store.heartbeat(queue, beat, holds)
    seen = caller.sees(queue, [hold.id for hold in holds])
    own = [at for at, sees in enumerate(seen) if sees]
    reply = store.heartbeat(queue, beat, [holds[at] for at in own])
    kept = set(own) - {own[at] for at in reply.lost}
    lost = [at for at in range(len(holds)) if at not in kept]
    return BeatReply(lost, [own[at] for at in reply.cancelled])
