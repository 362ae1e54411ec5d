"""What a lake says about itself in `lake.json`."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ackline.spark.journal.gaps import Gap
from ackline.spark.transforms.slo import DEFAULT_SLO

SCHEMA = 1
"""The version of a lake's tables. It grows with each change that a reader would notice."""


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of `lake.json`."""

    schema: int
    store: str
    tenant: str
    id: str
    """Identifies the lake, whatever path it is reached by."""
    objectives: Mapping[str, float] = msgspec.field(default_factory=DEFAULT_SLO.copy)
    published: int = -1
    """The last batch that is in the gold tables."""
    published_with: Mapping[str, float] = {}
    """The objectives that the gold tables were made with."""
    read_at: float | None = None
    """When the last run began, by the store's clock: the lake has all events before that. None
    until then."""
    delta: str | None = None
    """Where the same tables are kept as Delta tables."""
    gaps: list[Gap] = []
    """Dropped events that were skipped because somebody asked for that, as of the last run that
    has ended; `Lake.gaps` are those up to now."""
    first_events: Mapping[str, str | None] = msgspec.field(default_factory=dict, name="begins")
    """The first event of each journal that existed when the lake was made, None if that event was
    dropped by then."""
