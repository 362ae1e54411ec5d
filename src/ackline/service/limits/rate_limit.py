"""Rate limits with bursts (GCRA), in memory that the processes of the service share."""

from __future__ import annotations

import fcntl
import hashlib
import mmap
import os
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec


class Rate(msgspec.Struct, frozen=True):
    """`per_second` in the long run, and bursts of up to `burst`."""

    per_second: float
    burst: float

    def acquire(self, paid_until: float, now: float, cost: float) -> tuple[float, float]:
        """The time until which all admitted cost is paid, and how long to wait (0: admitted).

        A cost above a whole burst is admitted when nothing is owed, and paid for afterwards;
        otherwise it would wait forever.

        >>> Rate(per_second=10, burst=5).acquire(paid_until=0.0, now=100.0, cost=5)
        (100.5, 0.0)
        >>> Rate(per_second=10, burst=5).acquire(paid_until=100.5, now=100.0, cost=1)
        (100.5, 0.1)
        """
        owed_from = max(paid_until, now)
        unused_burst = self.burst - min(cost, self.burst)
        wait = round(owed_from - now - unused_burst / self.per_second, 9)
        if wait > 0:
            return paid_until, wait
        return owed_from + cost / self.per_second, 0.0


BUCKETS = 4096
SLOTS_PER_BUCKET = 8
"""Slots of each bucket. When all are used, the name that owes least (mostly 0) is replaced."""

_BUCKET = struct.Struct("Qd" * SLOTS_PER_BUCKET)
_SLOT = struct.Struct("Qd")
SIZE = BUCKETS * _BUCKET.size

LOCK_TRIES, LOCK_RETRY_SECONDS = 50, 0.0002
"""How often to try to lock a bucket, which others lock for microseconds, and the seconds between
two tries. A process that is stopped while it has the lock must not block the event loops of the
others: after 10 ms they go on without it, and at worst one update is lost."""

STREAM_SLOTS_FROM = 1 << 40
STREAM_SLOTS_PER_NAME = 1 << 20
"""Offsets behind the table: each open stream locks one byte there."""


def new_file(folder: Path | None = None) -> int:
    """The file of a table: in the shared folder, or unnamed for a single process."""
    if folder is None:
        with tempfile.TemporaryFile() as temporary:
            file = os.dup(temporary.fileno())
    else:
        file = os.open(folder / "limits", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    os.truncate(file, SIZE)  # keeps what is in it
    return file


class RateTable:
    """A table in shared memory of what each name owes to its rate; and stream slots."""

    def __init__(self, file: int, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._file = file
        self._table = mmap.mmap(file, SIZE)
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._slots: dict[int, set[int]] = {}

    def acquire(self, name: str, rate: Rate, cost: float = 1.0) -> float:
        """Admit something of this cost (0), or return the seconds to wait."""
        hash_ = _hash(name)
        with self._bucket(hash_) as at:
            offset, due = self._find(at, hash_)
            due, wait = rate.acquire(due, self._monotonic(), cost)
            if not wait:
                _SLOT.pack_into(self._table, offset, hash_, due)
        return wait

    def wait_time(self, name: str, rate: Rate) -> float:
        """The seconds to wait before this rate admits something."""
        hash_ = _hash(name)
        with self._bucket(hash_) as at:
            return rate.acquire(self._find(at, hash_)[1], self._monotonic(), 1.0)[1]

    def acquire_slot(self, name: str, maximum: int) -> int | None:
        """One of a name's `maximum` slots, if any is free; a process that dies frees its slots."""
        first = STREAM_SLOTS_FROM + (_hash(name) >> 24) * STREAM_SLOTS_PER_NAME
        with self._lock:
            used = self._slots.setdefault(first, set())
            for slot in range(first, first + maximum):
                if slot not in used and self._try_lock(slot):
                    used.add(slot)
                    return slot
        return None

    def release_slot(self, slot: int) -> None:
        """Release a slot."""
        first = slot - (slot - STREAM_SLOTS_FROM) % STREAM_SLOTS_PER_NAME
        with self._lock:
            used = self._slots[first]
            used.discard(slot)
            if not used:
                del self._slots[first]
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, slot)

    def close(self) -> None:
        """Close the table and its file."""
        self._table.close()
        os.close(self._file)

    @contextmanager
    def _bucket(self, hash_: int) -> Iterator[int]:
        at = hash_ % BUCKETS * _BUCKET.size
        # The file lock keeps other processes out, but not other threads of this one.
        with self._lock:
            locked = self._try_lock(at) or any(self._try_again(at) for _ in range(LOCK_TRIES))
            try:
                yield at
            finally:
                if locked:
                    fcntl.lockf(self._file, fcntl.LOCK_UN, 1, at)

    def _find(self, at: int, hash_: int) -> tuple[int, float]:
        """A name's offset, and what it owes; a new name gets the slot of one that owes least."""
        entries = _BUCKET.unpack_from(self._table, at)
        hashes, dues = entries[::2], entries[1::2]
        if hash_ in hashes:
            index = hashes.index(hash_)
            return at + index * _SLOT.size, dues[index]
        return at + dues.index(min(dues)) * _SLOT.size, 0.0

    def _try_again(self, offset: int) -> bool:
        time.sleep(LOCK_RETRY_SECONDS)  # lets the holder run, if it waits for a CPU
        return self._try_lock(offset)

    def _try_lock(self, offset: int) -> bool:
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, offset)
        except OSError:
            return False
        return True


def _hash(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little") or 1
