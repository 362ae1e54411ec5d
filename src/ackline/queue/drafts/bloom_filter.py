"""A rotating Bloom filter: which jobs this process has certainly not enqueued before."""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Callable, Hashable
from time import monotonic

from ackline.core.fork_safety import renew_locks_after_fork


class _BloomFilter:
    """One Bloom filter: adding a key sets some of its bits."""

    def __init__(self, capacity: int, error_rate: float) -> None:
        bits = -capacity * math.log(error_rate) / math.log(2) ** 2
        # A power of two, so that a mask selects a bit.
        self._mask = (1 << max(10, math.ceil(math.log2(bits)))) - 1
        self._probes = max(1, round((self._mask + 1) / capacity * math.log(2)))
        self._probes = min(self._probes, round(-math.log2(error_rate)) + 1)
        self._bits = bytearray((self._mask + 1) // 8)
        self.count = 0

    def test_and_add(self, first: int, second: int) -> bool:
        """Add a key given by two hashes; True if it may have been added before."""
        bits, mask, known = self._bits, self._mask, True
        for _ in range(self._probes):
            position = first & mask
            byte, bit = position >> 3, 1 << (position & 7)
            if not bits[byte] & bit:
                known = False
                bits[byte] |= bit
            first += second
        if not known:
            self.count += 1
        return known

    def test(self, first: int, second: int) -> bool:
        """Whether a key may have been added."""
        bits, mask = self._bits, self._mask
        for _ in range(self._probes):
            position = first & mask
            if not bits[position >> 3] & (1 << (position & 7)):
                return False
            first += second
        return True


class RotatingBloomFilter:
    """Remembers keys for one to two rotations, in a few megabytes.

    It only saves work: a job that is certainly new to this process is inserted without a
    look-up, and the store still finds the jobs that another process has enqueued.

    >>> known = RotatingBloomFilter()
    >>> known.add("a"), known.add("a")
    (True, False)
    """

    def __init__(
        self,
        capacity: int = 1_000_000,
        error_rate: float = 0.01,
        rotate_after: float = 1800.0,
        now: Callable[[], float] = monotonic,
    ) -> None:
        self._capacity = capacity
        self._error_rate = error_rate
        self._rotate_after = rotate_after
        self._now = now
        self._lock = threading.Lock()
        renew_locks_after_fork(self, "_lock")
        self._current = self._previous = _BloomFilter(capacity, error_rate)
        self._rotated_at = now()

    def add(self, key: Hashable) -> bool:
        """Add a key; True if it was certainly not added before."""
        # The hash of a str is salted per process, which suits a filter that is per process too.
        first = hash(key)
        second = (first >> 17) | 1
        with self._lock:
            self._rotate_if_due()
            known = self._previous.test(first, second)
            return not (self._current.test_and_add(first, second) or known)

    def _rotate_if_due(self) -> None:
        full = self._current.count >= self._capacity
        if full or self._now() - self._rotated_at >= self._rotate_after:
            self._previous = self._current
            self._current = _BloomFilter(self._capacity, self._error_rate)
            self._rotated_at = self._now()


_filters: weakref.WeakKeyDictionary[object, RotatingBloomFilter] = weakref.WeakKeyDictionary()


def filter_for_store(store: object) -> RotatingBloomFilter:
    """The filter that all queues of an open store share, as it is large."""
    found = _filters.get(store)
    return found if found is not None else _filters.setdefault(store, RotatingBloomFilter())
