"""Which jobs a supervised process had started, for its supervisor to read when it is dead.

A worker leases more jobs than it runs. When one of them kills its process, those that had not
started cannot have been the cause, so it must not cost them an attempt. The store does not know
which is which, and recording it there would take a write for each job; memory that both processes
share takes none.
"""

from __future__ import annotations

import contextlib
import functools
import mmap
import os
import tempfile
import zlib
from collections import deque
from collections.abc import Iterable

from ackline.core.job import Record
from ackline.worker.leased_jobs import LeasedJob

ENVIRONMENT_VARIABLE = "ACKLINE_STARTED_JOBS"
"""The shared file: its descriptor, then its device and inode, to check that it is the right one."""

SLOTS = 8192
SIZE = 8 * SLOTS

_ABSENT, _IN_USE, _FULL = 0, 1, 2
"""Values of the first slot. Unless it is `_IN_USE`, any job may have been started."""


class StartedJobsWriter:
    """The worker's side: a mark for each job from its start until its outcome is stored."""

    def __init__(self, memory: mmap.mmap) -> None:
        self._slots = memoryview(memory).cast("Q")
        self._slots[0] = _IN_USE
        self._free = deque(range(1, SLOTS))

    def add(self, job: LeasedJob) -> None:
        """Mark a job whose handler is about to be called."""
        try:
            slot = self._free.pop()
        except IndexError:
            self._slots[0] = _FULL
        else:
            self._slots[slot] = _mark(job.record)
            job.on_forgotten = functools.partial(self._remove, slot)
            if job.lost:
                # Lost since it was last checked: nobody else would remove the mark.
                job.forget()

    def _remove(self, slot: int) -> None:
        self._slots[slot] = 0
        self._free.append(slot)


class StartedJobs:
    """The supervisor's side: created before the process, read after it has exited."""

    def __init__(self) -> None:
        self.file = _anonymous_file()
        os.ftruncate(self.file, SIZE)
        self._memory = mmap.mmap(self.file, SIZE)

    @property
    def environment(self) -> dict[str, str]:
        """The environment variable that the process needs."""
        status = os.fstat(self.file)
        return {ENVIRONMENT_VARIABLE: f"{self.file} {status.st_dev} {status.st_ino}"}

    @property
    def in_use(self) -> bool:
        """Whether the process has got as far as to run jobs."""
        return memoryview(self._memory).cast("Q")[0] != _ABSENT

    def never_started(self, records: Iterable[Record]) -> list[Record]:
        """Those of the dead process's jobs that it cannot have started."""
        state, *marks = memoryview(self._memory).cast("Q").tolist()
        started = set(marks)
        return [job for job in records if state == _IN_USE and _mark(job) not in started]

    def close(self) -> None:
        """Release the memory."""
        os.close(self.file)
        self._memory.close()


@functools.cache
def inherited_writer() -> StartedJobsWriter | None:
    """The writer for the memory that this process's supervisor reads, if it has one."""
    # Removed, because a child of this process must not write to it.
    variable = os.environ.pop(ENVIRONMENT_VARIABLE, None)
    if variable is None:
        return None
    file, device, inode = map(int, variable.split())
    with contextlib.suppress(OSError):
        status = os.fstat(file)
        if (status.st_dev, status.st_ino) == (device, inode):
            os.set_inheritable(file, False)
            return StartedJobsWriter(mmap.mmap(file, SIZE))
    return None


def _mark(record: Record) -> int:
    return 1 << 32 | zlib.crc32(record.id.encode(), record.token & 0xFFFFFFFF)


def _anonymous_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("ackline-started-jobs")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
