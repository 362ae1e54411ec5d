"""What a stream keeps in the store: its progress, and the jobs that it has claimed."""

from __future__ import annotations

import msgspec

from ackline.spark.streams.claims.leases import Lease


class StreamState(msgspec.Struct, frozen=True):
    """The progress of a stream."""

    generation: str
    """Which run of the stream this is: the offsets in Spark's checkpoint name it."""
    epoch: int = 0
    """How many drivers have read it."""
    driver: str = ""
    """The driver that reads it now."""
    planned: int = 0
    """The last micro-batch that Spark is known to have logged."""
    times_planned: int = 0
    """How often that micro-batch was planned."""
    committed: int = 0
    """The last micro-batch that is committed and settled."""
    last_nonempty_commit: int = 0
    """The last committed micro-batch that had jobs, which shows that the sink worked."""
    offered_generation: str = ""
    """The generation in the newest offset of a first micro-batch that was offered again.

    Spark may have logged that offset or the one before, each in a different checkpoint. The first
    that it returns with decides which generation this is.
    """


class PendingBatch(msgspec.Struct, frozen=True, array_like=True):
    """Jobs that will be one micro-batch: part of one that was split, or a suspect."""

    leases: tuple[Lease, ...]
    suspected_in: int = 0
    """The micro-batch in which its only job was first suspected of killing drivers; 0 is none."""


class Manifest(msgspec.Struct, frozen=True):
    """The jobs of one micro-batch."""

    batch: int
    leases: tuple[Lease, ...]
    suspected_in: int = 0
