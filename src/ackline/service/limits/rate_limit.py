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
    """`per_second` in the long run, and up to `burst` at once."""

    per_second: float
    burst: float

    def acquire(self, paid_until: float, now: float, cost: float) -> tuple[float, float]:
        """When all that was admitted will be paid for, and how long to wait instead (0: admitted).

        A cost larger than a whole burst is admitted when nothing is owed, and paid for afterwards:
        otherwise it would wait forever.

        >>> Rate(per_second=10, burst=5).charge(due=0.0, now=100.0, cost=5)
        (100.5, 0.0)
        >>> Rate(per_second=10, burst=5).charge(due=100.5, now=100.0, cost=1)
        (100.5, 0.1)
        """
        owed_from = max(paid_until, now)
        room = self.burst - min(cost, self.burst)
        wait = round(owed_from - now - room / self.per_second, 9)
        if wait > 0:
            return paid_until, wait
        return owed_from + cost / self.per_second, 0.0


BUCKETS = 4096
SLOTS_PER_BUCKET = 8
"""In each bucket. When all are taken, the name that owes least, mostly nothing, is dropped."""

_BUCKET = struct.Struct("Qd" * SLOTS_PER_BUCKET)
_SLOT = struct.Struct("Qd")
SIZE = BUCKETS * _BUCKET.size

LOCK_TRIES, LOCK_RETRY_SECONDS = 50, 0.0002
"""How often to try for the lock of a bucket, which others hold for microseconds, and the seconds
from one try to the next. A process that is stopped while it holds one must not stop the event loops
of the others: after a hundredth of a second they go on without, and at worst a charge is lost."""

STREAM_SLOTS_FROM = 1 << 40
STREAM_SLOTS_PER_NAME = 1 << 20
"""Behind the table are bytes that nobody reads: each stands for a stream, which locks it."""


def new_file(folder: Path | None = None) -> int:
    """A file for a ledger: in the folder that processes share, or without a name for one alone."""
    if folder is None:
        with tempfile.TemporaryFile() as nameless:
            file = os.dup(nameless.fileno())
    else:
        file = os.open(folder / "limits", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    os.truncate(file, SIZE)  # what is there already stays
    return file


class RateTable:
    """A table of what each name owes to its rate, and the seats that are taken."""

    def __init__(self, file: int, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._file = file
        self._table = mmap.mmap(file, SIZE)
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._seats: dict[int, set[int]] = {}

    def acquire(self, name: str, rate: Rate, cost: float = 1.0) -> float:
        """Admit something of this cost, or return how many seconds it has to wait."""
        mark = _hash(name)
        with self._bucket(mark) as at:
            place, due = self._find(at, mark)
            due, wait = rate.acquire(due, self._monotonic(), cost)
            if not wait:
                _SLOT.pack_into(self._table, place, mark, due)
        return wait

    def wait_time(self, name: str, rate: Rate) -> float:
        """How many seconds it would have to wait."""
        mark = _hash(name)
        with self._bucket(mark) as at:
            return rate.acquire(self._find(at, mark)[1], self._monotonic(), 1.0)[1]

    def acquire_slot(self, name: str, most: int) -> int | None:
        """One of a name's `most` seats, if any is free; a process that dies frees its seats."""
        begin = STREAM_SLOTS_FROM + (_hash(name) >> 24) * STREAM_SLOTS_PER_NAME
        with self._lock:
            taken = self._seats.setdefault(begin, set())
            for seat in range(begin, begin + most):
                if seat not in taken and self._try_lock(seat):
                    taken.add(seat)
                    return seat
        return None

    def release_slot(self, seat: int) -> None:
        """Free a seat."""
        begin = seat - (seat - STREAM_SLOTS_FROM) % STREAM_SLOTS_PER_NAME
        with self._lock:
            taken = self._seats[begin]
            taken.discard(seat)
            if not taken:
                del self._seats[begin]
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, seat)

    def close(self) -> None:
        """Release the memory and its file."""
        self._table.close()
        os.close(self._file)

    @contextmanager
    def _bucket(self, mark: int) -> Iterator[int]:
        at = mark % BUCKETS * _BUCKET.size
        # The file's lock keeps other processes out, but not other threads of this one.
        with self._lock:
            locked = self._try_lock(at) or any(self._try_again(at) for _ in range(LOCK_TRIES))
            try:
                yield at
            finally:
                if locked:
                    fcntl.lockf(self._file, fcntl.LOCK_UN, 1, at)

    def _find(self, at: int, mark: int) -> tuple[int, float]:
        """A name's place, and what it owes; a new name gets the place of one that owes least."""
        entries = _BUCKET.unpack_from(self._table, at)
        marks, dues = entries[::2], entries[1::2]
        if mark in marks:
            index = marks.index(mark)
            return at + index * _SLOT.size, dues[index]
        return at + dues.index(min(dues)) * _SLOT.size, 0.0

    def _try_again(self, place: int) -> bool:
        time.sleep(LOCK_RETRY_SECONDS)  # lets the holder run, if it waits for a processor
        return self._try_lock(place)

    def _try_lock(self, place: int) -> bool:
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
        except OSError:
            return False
        return True


def _hash(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little") or 1
