"""Streams that nobody reads any more: what they hold goes back, and their keys go."""

from __future__ import annotations

from ackline.queues import Queues
from ackline.spark.claims.intake import Intake
from ackline.spark.claims.keeper import LeaseKeeper
from ackline.spark.claims.manifests import ManifestRoom
from ackline.spark.options import ReadClaims


def forget(queues: Queues, queue: str, stream: str) -> None:
    """Forget a stream; a query that still reads it is told to stop. Safe to repeat."""
    options = ReadClaims(store="", table="jobs", queue=queue, stream_id=stream)
    line = queues[queue]
    room = ManifestRoom(line.store, line.key, stream)
    keeper = LeaseKeeper(line.store, line.key, options.worker, options.lease, room.fenced)
    room.begin(lambda _state: None)
    room.restart()
    Intake(line, options, room, keeper).sweep()
    room.forget()
