"""Generated job ids: unique, and sorted by creation time."""

from __future__ import annotations

import itertools
import os
import random
import time
from collections.abc import Iterator


class UuidGenerator:
    """Generates UUIDs of version 7.

    The ids of one millisecond share a random prefix and count up from a random number, so
    that they sort by creation, and an index appends them at its end.
    """

    def __init__(self) -> None:
        # Not `os.urandom` each time: the system call releases the interpreter's lock.
        self._random = random.Random()
        self._block = self._new_block(0)

    def new(self) -> str:
        """The next id."""
        millisecond = time.time_ns() // 1_000_000
        made_at, prefix, numbers = self._block
        if made_at != millisecond:
            made_at, prefix, numbers = self._block = self._new_block(millisecond)
        return f"{prefix}{next(numbers):012x}"

    def reseed(self) -> None:
        """Start again from another random number."""
        self._random.seed()
        self._block = self._new_block(0)

    def _new_block(self, millisecond: int) -> tuple[int, str, Iterator[int]]:
        number = self._random.getrandbits(80)
        time_bits, version_bits = f"{millisecond:012x}", number >> 68
        variant_bits = 0x8000 | (number >> 48) & 0x3FFF
        prefix = f"{time_bits[:8]}-{time_bits[8:]}-7{version_bits:03x}-{variant_bits:04x}-"
        # The highest bit is left clear, so that counting up cannot overflow.
        return millisecond, prefix, itertools.count(number & 0x7FFF_FFFF_FFFF)


_generator = UuidGenerator()
# A forked process must not count on from the same number as its parent.
os.register_at_fork(after_in_child=_generator.reseed)

new_id = _generator.new
