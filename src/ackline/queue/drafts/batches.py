"""Batches of drafts: large enough to be fast, small enough not to block others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from ackline.core.job import Draft

T = TypeVar("T")

BATCH_JOBS = 1000
"""Jobs per round trip of a bulk enqueue …"""

BATCH_BYTES = 8 << 20
"""… and about how many bytes of payload, as many as Redis delivers in one claim."""


def payload_size(draft: Draft) -> int:
    """How many bytes a job adds to a batch."""
    return len(draft.payload)


def fills_batch(drafts: Sequence[Draft]) -> bool:
    """Whether these jobs fill a batch."""
    return len(drafts) >= BATCH_JOBS or sum(map(payload_size, drafts)) >= BATCH_BYTES


def in_batches(
    items: Iterable[T], size_of: Callable[[T], int], max_items: int = BATCH_JOBS
) -> Iterator[list[T]]:
    """Group items into batches as they arrive; the last may be smaller."""
    batch: list[T] = []
    size = 0
    for item in items:
        batch.append(item)
        size += size_of(item)
        if len(batch) >= max_items or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
