"""Deletes streams that nobody reads any more; their jobs go back to the queue."""

from __future__ import annotations

from ackline.queues import Queues
from ackline.spark.options import ClaimsOptions
from ackline.spark.streams.claims.claimer import Claimer
from ackline.spark.streams.claims.lease_renewer import LeaseRenewer
from ackline.spark.streams.claims.manifest_store import ManifestStore


def forget_stream(queues: Queues, queue: str, stream: str) -> None:
    """Delete a stream; a query that still reads it is fenced. Safe to repeat."""
    options = ClaimsOptions(store="", table="jobs", queue=queue, stream_id=stream)
    source = queues[queue]
    manifest_store = ManifestStore(source.store, source.key, stream)
    renewer = LeaseRenewer(
        source.store, source.key, options.worker_id, options.lease, manifest_store.is_fenced
    )
    manifest_store.begin(lambda _state: None)
    manifest_store.restart()
    Claimer(source, options, manifest_store, renewer).release_orphans()
    manifest_store.delete()
