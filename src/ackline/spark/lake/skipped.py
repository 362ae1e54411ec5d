"""The gaps of a lake's stream, known as soon as the batch that skipped them is run."""

from __future__ import annotations

import msgspec

from ackline.spark.journal.gaps import Gap
from ackline.spark.lake.damage import unreadable
from ackline.spark.lake.lake import Lake
from ackline.spark.lake.layout import CHECKPOINT
from ackline.spark.store.address import StoreAddress
from ackline.spark.store.retry import DEFAULT_RETRY_FOR, retry_transient
from ackline.spark.streams.events.offset import EventsOffset
from ackline.spark.streams.events.pending_gaps import PendingGaps

OFFSETS = (*CHECKPOINT, "offsets")


def gaps_up_to(number: int, lake: Lake, address: StoreAddress) -> list[Gap]:
    """All gaps up to the end of a batch that is being run.

    Its offset, which Spark has written before, lists those that were known when it was planned. If
    more events had been dropped when it was run, the store has a note of them.
    """
    offset = offset_of(number, lake)
    if offset is None:
        return []
    noted = retry_transient(lambda: _noted(address, offset.gaps_key), DEFAULT_RETRY_FOR)
    return [*offset.gaps, *(gap for gap in noted if gap not in offset.gaps)]


def offset_of(number: int, lake: Lake) -> EventsOffset | None:
    """Where a batch ends, by the checkpoint; None if it was not run by a stream."""
    contents = lake.folder.read(*OFFSETS, str(number))
    if contents is None:
        return None
    try:
        # After the version and Spark's own values, there is a line for each source of the stream.
        return msgspec.json.decode(contents.splitlines()[-1], type=EventsOffset)
    except (ValueError, IndexError) as error:
        raise unreadable(lake.folder.at(*OFFSETS, str(number)), error) from None


def _noted(address: StoreAddress, stream: str) -> list[Gap]:
    with address.open() as queues:
        return PendingGaps(queues).get(stream)
