"""Heartbeats of workers elsewhere: each extends leases of the kinds that it may touch."""

from __future__ import annotations

from collections.abc import Sequence

from ackline.core.job import QueueKey
from ackline.service.auth.caller import Caller
from ackline.stores.contract import Heartbeat, HeartbeatReply, LeaseExtension


def heartbeat(
    caller: Caller, queue: QueueKey, beat: Heartbeat, holds: Sequence[LeaseExtension]
) -> HeartbeatReply:
    """Note that a worker is alive, and extend its leases; those of other kinds are lost to it."""
    store = caller.runtime.store
    if caller.principal.kinds is None:
        return store.heartbeat(queue, beat, holds)
    seen = caller.can_see_each(queue, [hold.id for hold in holds])
    own = [at for at, sees in enumerate(seen) if sees]
    reply = store.heartbeat(queue, beat, [holds[at] for at in own])
    kept = set(own) - {own[at] for at in reply.lost}
    lost = [at for at in range(len(holds)) if at not in kept]
    return HeartbeatReply(lost, [own[at] for at in reply.cancelled])
