"""How far a lake has come, as Spark's checkpoint says."""

from __future__ import annotations

import msgspec

from ackline.spark.lake.damage import naming_damage, unreadable
from ackline.spark.lake.lake import Lake
from ackline.spark.lake.layout import CHECKPOINT
from ackline.spark.paths import open_folder
from ackline.spark.streams.events.offset import EventsOffset, parse_offset


def committed_offset(lake: Lake) -> EventsOffset | None:
    """Where the last batch ended that Spark will not repeat; None if there is none yet.

    Offsets that are logged but not committed do not count: those batches are read again.
    """
    number = lake.committed
    if number < 0:
        return None
    path = lake.folder.at(*CHECKPOINT, "offsets", str(number))
    files, name = open_folder(path)
    with naming_damage(path), files.open_input_stream(name) as file:
        lines = file.read().splitlines()
    try:
        # A version, Spark's own settings, and the offset of the only source: a line each.
        return parse_offset(msgspec.json.decode(b"".join(lines[-1:])))
    except msgspec.DecodeError as error:
        raise unreadable(path, error) from None
