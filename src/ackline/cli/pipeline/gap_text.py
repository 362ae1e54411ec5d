"""Describe events that a journal dropped before they were read."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

from ackline.cli.output.text import safe

if TYPE_CHECKING:
    from ackline.spark.journal.gaps import Gap


def gap_text(gap: Gap) -> str:
    """The missing events on one line; times are in UTC, as everywhere in the lake."""
    ranges = "" if gap.count == 1 else f"{gap.count:,} ranges of "
    text = f"queue {safe(gap.queue)}: {ranges}events after cursor {gap.after} up to {gap.until}"
    if gap.retained_from is not None:
        text += f", from before {_moment(gap.retained_from)}"
    if gap.skipped_at is not None:
        text += f"; skipped {'at' if gap.count == 1 else 'until'} {_moment(gap.skipped_at)}"
    return text


def _moment(at: float) -> str:
    return f"{datetime.datetime.fromtimestamp(at, datetime.UTC):%Y-%m-%d %H:%M:%S} UTC"
