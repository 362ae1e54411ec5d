"""How many batches of the journal are read at once."""

from __future__ import annotations

from collections.abc import Sequence

FIRST_READ_SIZE, MAX_READ_SIZE = 4, 200
"""Few at first, because mostly only a few events are wanted."""


def next_read_size(wanted: int, sizes: Sequence[int]) -> int:
    """How many batches hold the wanted events, if they are as large as those read before.

    >>> next_read_size(6000, [1000, 1000, 1000, 1000]), next_read_size(6000, [1, 1, 1, 1])
    (6, 200)
    """
    needed = -(-wanted * len(sizes) // sum(sizes))
    return max(1, min(needed, MAX_READ_SIZE))
