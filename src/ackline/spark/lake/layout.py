"""The files and folders of a lake, by name."""

from __future__ import annotations

Table = tuple[str, ...]
"""The name of a table: its path below the lake, as segments."""

MARK, LOG = "lake.json", "log"

CHECKPOINT = ("checkpoint",)

EVENTS, JOBS, OPEN = ("bronze", "events"), ("silver", "jobs"), ("silver", "open")
TRAFFIC, WORKERS, ERRORS = ("parts", "traffic"), ("parts", "workers"), ("parts", "errors")
SUMMARIES = (TRAFFIC, WORKERS, ERRORS)
"""Tables of counts and sketches, which gold is made of."""
KEPT_BY_BATCH = (EVENTS, JOBS, *SUMMARIES)
"""Tables to which each batch adds a folder of its own."""

GOLD = "gold"

WRITING = "writing"
"""Where batches are written before they are part of the lake: each run has a folder there."""

COMPACTING = "compacting"
"""Where batches are put together before they take the place of those they were made of."""
COMPACTION = "compaction.json"
"""Which batches are being replaced, so that a killed run's successor can finish it."""

OWN = frozenset(
    {table[0] for table in (*KEPT_BY_BATCH, OPEN, CHECKPOINT)}
    | {MARK, LOG, GOLD, WRITING, COMPACTING, COMPACTION}
)
"""All that a lake's folder ever has."""


def batch_folder(table: Table, number: int) -> tuple[str, ...]:
    """The own folder of one batch of a table, as segments of a path below the lake.

    >>> batch_folder(EVENTS, 7)
    ('bronze', 'events', 'batch_id=7')
    """
    return (*table, f"batch_id={number}")
