"""Streams that nobody reads any more: their jobs go back to the queue, their keys are deleted."""

from __future__ import annotations

from ackline.queues import Queues
from ackline.spark.claims.intake import Intake
from ackline.spark.claims.keeper import LeaseKeeper
from ackline.spark.claims.manifest_room import ManifestRoom
from ackline.spark.options import ReadClaims


def forget(queues: Queues, queue: str, stream: str) -> None:
    """Forget a stream; a query that still reads it is fenced off. Safe to repeat."""
    options = ReadClaims(store="", table="jobs", queue=queue, stream_id=stream)
    source = queues[queue]
    room = ManifestRoom(source.store, source.key, stream)
    keeper = LeaseKeeper(source.store, source.key, options.worker, options.lease, room.fenced)
    room.begin(lambda _state: None)
    room.restart()
    Intake(source, options, room, keeper).sweep()
    room.forget()
