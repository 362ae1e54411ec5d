"""Wake-ups between threads and processes, without polling.

Beside the database is a directory of FIFOs. Those who wait for claimable jobs of the same kinds
share one FIFO, so that one written byte wakes one of them. Those who wait for changes or signals
have one each. Every FIFO of a queue is written to. A byte may be lost when a process dies with
it, so a wait also looks now and then whether anyone has written to the database.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import os
import select
import stat
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Self

from ackline.errors import StoreError
from ackline.job import QueueKey
from ackline.stores.base import Topic

LOOK_EVERY = 0.5
"""Seconds within which a lost wake-up is noticed."""

_TICK = 50_000_000
"""Nanoseconds. A directory changed later than this before it was read may have changed since,
within the same tick of the file system's clock."""


_UNREADY = "new-"
"""How the name of a FIFO starts that nobody reads yet."""

_UNREADY_SECONDS = 60.0
"""A FIFO that is not ready after this time never will be."""


@functools.lru_cache(maxsize=4096)
def queue_tag(queue: QueueKey) -> str:
    """A short name of a queue that fits in a file name; no two queues share it."""
    parts = f"{len(queue.tenant)}:{queue.tenant}{queue.name}"
    return hashlib.blake2b(parts.encode(), digest_size=16).hexdigest()


def kinds_tag(kinds: frozenset[str] | None) -> str:
    """A short name of a set of kinds; no two sets share it."""
    if kinds is None:
        return "all"
    parts = "".join(f"{len(kind)}:{kind}" for kind in sorted(kinds))
    return hashlib.blake2b(parts.encode(), digest_size=16).hexdigest()


class Wakes:
    """The wake-ups of one database file."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._ready: dict[str, int] = {}
        self._listed: dict[str, list[str]] = {}
        self._listed_at = -1

    def listen(
        self,
        queues: Sequence[QueueKey],
        topic: Topic,
        kinds: frozenset[str] | None,
        version: Callable[[], int],
    ) -> SqliteListener:
        """Start to listen; `version` tells a number that changes with the database."""
        shared = topic == "ready"
        whose = kinds_tag(kinds) if shared else f"{os.getpid()}-{uuid.uuid4().hex}"
        tags = [queue_tag(queue) for queue in dict.fromkeys(queues)]
        paths = [os.path.join(self._folder, f"{topic}.{tag}.{whose}") for tag in tags]
        return SqliteListener(paths, version, shared=shared)

    def tell(self, news: Iterable[tuple[Topic, QueueKey]]) -> None:
        """Wake who listens; never fails, for the work itself is done already."""
        with self._lock, contextlib.suppress(OSError):
            for topic, queue in news:
                paths = self._listeners().get(f"{topic}.{queue_tag(queue)}", ())
                for path in paths:
                    if topic == "ready":
                        self._tell_sharers(path)
                    else:
                        _tell_one(path)

    def close(self) -> None:
        """Let go of what is kept open for writing."""
        with self._lock:
            for file in self._ready.values():
                os.close(file)
            self._ready.clear()

    def forget(self) -> None:
        """In a forked child: what the parent opened is the parent's."""
        self._lock = threading.Lock()
        self.close()

    def _tell_sharers(self, path: str) -> None:
        file = self._ready.get(path)
        if file is None:
            file = _open_writer(path)
            if file is None:
                # Nobody waits just now. The FIFO stays: somebody may be about to open it.
                return
            self._ready[path] = file
        if not _write(file):
            os.close(self._ready.pop(path))

    def _listeners(self) -> dict[str, list[str]]:
        try:
            changed = os.stat(self._folder).st_mtime_ns
        except FileNotFoundError:
            return {}
        if changed != self._listed_at:
            before = time.time_ns()
            self._listed = {}
            for name in os.listdir(self._folder):
                path = os.path.join(self._folder, name)
                if name.startswith(_UNREADY):
                    _tidy_away(path)
                    continue
                self._listed.setdefault(name.rpartition(".")[0], []).append(path)
            self._listed_at = changed if before - changed > _TICK else -1
        return self._listed


class SqliteListener:
    """Waits on its FIFOs, on a pipe for `wake`, and now and then looks at the database."""

    def __init__(self, paths: list[str], version: Callable[[], int], *, shared: bool) -> None:
        self._version = version
        self._shared = shared
        self._paths = paths
        self._files = [file for path in paths if (file := _open_fifo(path, shared)) is not None]
        self._inner, self._outer = os.pipe()
        os.set_blocking(self._inner, False)
        os.set_blocking(self._outer, False)
        # Without FIFOs on this file system, looking often is all that is left.
        self._every = LOOK_EVERY if len(self._files) == len(paths) else 0.02
        self._seen = version()
        self._looked_at = time.monotonic()
        self._closing = threading.Lock()
        self._closed = False
        self._poll = select.poll()
        for file in (self._inner, *self._files):
            self._poll.register(file, select.POLLIN)

    def wait(self, timeout: float) -> bool:
        end = time.monotonic() + timeout
        while not self._closed:
            left = min(end, self._looked_at + self._every) - time.monotonic()
            ready = self._poll.poll(max(left * 1000, 0))
            # All are emptied, so that one wake-up is not answered twice.
            if sum([_drain(file) for file, _ in ready]):
                self._changed(time.monotonic())
                return True
            now = time.monotonic()
            if now - self._looked_at >= self._every and self._changed(now):
                return True
            if now >= end:
                return False
        return True

    def _changed(self, now: float) -> bool:
        before, self._looked_at = self._seen, now
        try:
            self._seen = self._version()
        except StoreError:
            # Closed, or in trouble: whoever waits finds out by its next call.
            return True
        return self._seen != before

    def wake(self) -> None:
        with self._closing, contextlib.suppress(BlockingIOError):
            if not self._closed:
                os.write(self._outer, b"w")

    def close(self) -> None:
        with self._closing:
            if self._closed:
                return
            self._closed = True
            for file in (self._inner, self._outer, *self._files):
                os.close(file)
        if not self._shared:
            for path in self._paths:
                with contextlib.suppress(OSError):
                    os.unlink(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def _open_fifo(path: str, shared: bool) -> int | None:
    """Open a FIFO to wait on, made if need be; None where there can be none."""
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        file = _join_fifo(path) if shared else _make_fifo(path)
    except OSError:
        return None
    if stat.S_ISFIFO(os.fstat(file).st_mode):
        return file
    os.close(file)
    return None


def _join_fifo(path: str) -> int:
    with contextlib.suppress(FileExistsError):
        os.mkfifo(path, 0o600)
    return _open_reader(path)


def _make_fifo(path: str) -> int:
    # A FIFO without a reader is removed by whoever writes. So it gets its name when it has one.
    folder, name = os.path.split(path)
    unready = os.path.join(folder, _UNREADY + name)
    os.mkfifo(unready, 0o600)
    try:
        file = _open_reader(unready)
        try:
            os.rename(unready, path)
        except BaseException:
            os.close(file)
            raise
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(unready)
        raise
    return file


def _open_reader(path: str) -> int:
    # Read-write: a FIFO whose last writer has left would be ready to read for ever.
    return os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)


def _tidy_away(path: str) -> None:
    """Remove what somebody left who died while it made it."""
    with contextlib.suppress(OSError):
        if time.time() - os.stat(path).st_mtime > _UNREADY_SECONDS:
            os.unlink(path)


def _tell_one(path: str) -> None:
    """Wake a listener of its own FIFO; remove the FIFO if its listener died without doing so."""
    file = _open_writer(path)
    if file is None:
        with contextlib.suppress(OSError):
            os.unlink(path)
        return
    _write(file)
    os.close(file)


def _open_writer(path: str) -> int | None:
    """Open a FIFO to write to; None when nobody reads it."""
    try:
        return os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ENXIO, errno.ENOENT):
            return None
        raise


def _write(file: int) -> bool:
    """Write a byte; False when nobody reads any more. A full FIFO wakes its reader anyway."""
    try:
        os.write(file, b"w")
    except BlockingIOError:
        return True
    except BrokenPipeError:
        return False
    return True


def _drain(file: int) -> int:
    """Empty a FIFO; another waiter may have been quicker."""
    try:
        return len(os.read(file, 65536))
    except (BlockingIOError, OSError):
        return 0
