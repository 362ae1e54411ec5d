"""Heartbeats of remote workers, which extend leases of the kinds that they may access."""

from __future__ import annotations

from collections.abc import Sequence

from ackline.core.job import QueueKey
from ackline.service.auth.caller import Caller
from ackline.stores.contract import Heartbeat, HeartbeatReply, LeaseExtension


def heartbeat(
    caller: Caller,
    queue: QueueKey,
    heartbeat: Heartbeat | None,
    extensions: Sequence[LeaseExtension],
) -> HeartbeatReply:
    """Record a worker's heartbeat and extend leases; those of other kinds count as lost."""
    store = caller.runtime.store
    if caller.principal.kinds is None:
        return store.heartbeat(queue, heartbeat, extensions)
    visible = caller.can_see_each(queue, [extension.id for extension in extensions])
    own = [index for index, is_visible in enumerate(visible) if is_visible]
    reply = store.heartbeat(queue, heartbeat, [extensions[index] for index in own])
    extended = set(own) - {own[index] for index in reply.lost}
    lost = [index for index in range(len(extensions)) if index not in extended]
    return HeartbeatReply(lost, [own[index] for index in reply.cancelled])
