"""Streams that nobody reads any more: their jobs go back to the queue, their keys are deleted."""

from __future__ import annotations

from ackline.queues import Queues
from ackline.spark.claims.manifest_room import ManifestStore
from ackline.spark.options import ClaimsOptions
from ackline.spark.streams.claims.claimer import Claimer
from ackline.spark.streams.claims.lease_renewer import LeaseRenewer


def forget_stream(queues: Queues, queue: str, stream: str) -> None:
    """Forget a stream; a query that still reads it is fenced off. Safe to repeat."""
    options = ClaimsOptions(store="", table="jobs", queue=queue, stream_id=stream)
    source = queues[queue]
    room = ManifestStore(source.store, source.key, stream)
    keeper = LeaseRenewer(
        source.store, source.key, options.worker_id, options.lease, room.is_fenced
    )
    room.begin(lambda _state: None)
    room.restart()
    Claimer(source, options, room, keeper).release_orphans()
    room.delete()
