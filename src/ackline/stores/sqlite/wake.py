"""Wake-ups between threads and processes, without polling.

Beside the database is a directory of FIFOs. Listeners for claimable jobs of the same kinds share
one FIFO, so that one written byte wakes one of them. Listeners to other topics have one each.
A wake-up writes to every FIFO of the queue and topic. A byte may be lost when the process that has
read it dies, so a wait also checks now and then whether anyone has written to the database.
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
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Self

from ackline.errors import StoreError
from ackline.job import QueueKey
from ackline.stores.base import Topic
from ackline.stores.sqlite.opening import permissions

LOOK_EVERY = 0.5
"""Seconds within which a lost wake-up is noticed."""

MOST_KEPT_OPEN = 64
"""The most FIFOs kept open for the next byte: queues may outnumber a process's open files."""

_TICK = 50_000_000
"""Nanoseconds. If a directory had changed less than this before it was listed, it may have changed
again since, within the same tick of the file system's clock."""


_UNREADY = "new-"
"""How the name of a FIFO starts that has no reader yet."""

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

    def __init__(self, database: str) -> None:
        self._database = database
        self._folder = f"{database}-wake"
        self._lock = threading.Lock()
        self._ready: OrderedDict[str, int] = OrderedDict()
        weakref.finalize(self, _close_all, self._ready).atexit = False
        self._listed: dict[str, list[str]] = {}
        self._listed_at = -1

    def listen(
        self,
        queues: Sequence[QueueKey],
        topic: Topic,
        kinds: frozenset[str] | None,
        version: Callable[[], int],
    ) -> SqliteListener:
        """Start to listen; `version` returns a number that changes with the database."""
        shared = topic == "ready"
        reader = kinds_tag(kinds) if shared else f"{os.getpid()}-{uuid.uuid4().hex}"
        tags = [queue_tag(queue) for queue in dict.fromkeys(queues)]
        paths = [os.path.join(self._folder, f"{topic}.{tag}.{reader}") for tag in tags]
        seen, mode = version(), permissions(self._database)
        _make_folder(self._folder, mode)
        return SqliteListener(paths, mode, version, seen, shared=shared)

    def tell(self, news: Iterable[tuple[Topic, QueueKey]]) -> None:
        """Wake the listeners; never fails, because the work itself is done already."""
        with self._lock:
            for topic, queue in news:
                for path in self._listeners(topic, queue):
                    # A listener that cannot be woken must not keep the others from it.
                    with contextlib.suppress(OSError):
                        if topic == "ready":
                            self._tell_sharers(path)
                        else:
                            _tell_one(path)

    def forget_queue(self, queue: QueueKey) -> None:
        """Remove the shared FIFOs of a dropped queue that nobody reads any more."""
        with self._lock:
            for path in self._listeners("ready", queue):
                file = self._ready.pop(path, None)
                if file is not None:
                    os.close(file)
                with contextlib.suppress(OSError):
                    _remove_if_unread(path)

    def close(self) -> None:
        """Close the FIFOs that are kept open for writing."""
        with self._lock:
            _close_all(self._ready)

    def forget(self) -> None:
        """In a forked child: close the inherited FIFOs, which are the parent's."""
        self._lock = threading.Lock()
        self.close()

    def _tell_sharers(self, path: str) -> None:
        file = self._ready.pop(path, None)
        if file is not None and not _write(file):
            # Nobody reads this FIFO any more; there may be a new one of this name.
            os.close(file)
            file = None
        if file is None:
            file = _open_writer(path)
            if file is None:
                # Nobody waits just now. The FIFO stays: somebody may be about to open it.
                return
            _write(file)
        self._ready[path] = file
        if len(self._ready) > MOST_KEPT_OPEN:
            os.close(self._ready.popitem(last=False)[1])

    def _listeners(self, topic: Topic, queue: QueueKey) -> list[str]:
        with contextlib.suppress(OSError):
            self._list()
        return self._listed.get(f"{topic}.{queue_tag(queue)}", [])

    def _list(self) -> None:
        try:
            changed = os.stat(self._folder).st_mtime_ns
        except FileNotFoundError:
            self._listed, self._listed_at = {}, -1
            return
        if changed == self._listed_at:
            return
        before = time.time_ns()
        self._listed = {}
        for name in os.listdir(self._folder):
            path = os.path.join(self._folder, name)
            if name.startswith(_UNREADY):
                _tidy_away(path)
                continue
            self._listed.setdefault(name.rpartition(".")[0], []).append(path)
        self._listed_at = changed if before - changed > _TICK else -1


class SqliteListener:
    """Waits on its FIFOs, on a pipe for `wake`, and now and then looks at the database."""

    def __init__(
        self, paths: list[str], mode: int, version: Callable[[], int], seen: int, *, shared: bool
    ) -> None:
        self._version = version
        self._seen = seen
        self._shared = shared
        self._paths = paths
        self._inner, self._outer = os.pipe()
        opened = (_open_fifo(path, mode, shared) for path in paths)
        self._files = [file for file in opened if file is not None]
        os.set_blocking(self._inner, False)
        os.set_blocking(self._outer, False)
        # Without FIFOs on this file system, the only way is to check often.
        self._every = LOOK_EVERY if len(self._files) == len(paths) else 0.02
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
            # Closed, or in trouble: the waiting caller finds out by its next call.
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


def _make_folder(folder: str, mode: int) -> None:
    with contextlib.suppress(OSError):
        os.makedirs(folder, exist_ok=True)
        # Users that may read the folder may also enter it.
        os.chmod(folder, mode | (mode & 0o444) >> 2)


def _open_fifo(path: str, mode: int, shared: bool) -> int | None:
    """Open a FIFO to wait on, made if need be; None if the file system allows none."""
    try:
        file = _join_fifo(path, mode) if shared else _make_fifo(path, mode)
    except OSError:
        return None
    if stat.S_ISFIFO(os.fstat(file).st_mode):
        return file
    os.close(file)
    return None


def _join_fifo(path: str, mode: int) -> int:
    while True:
        with contextlib.suppress(FileNotFoundError):
            return _open_reader(path, mode)
        with contextlib.suppress(FileExistsError):
            return _make_fifo(path, mode)


def _make_fifo(path: str, mode: int) -> int:
    # Writers remove a FIFO that has no reader. So it gets its name only once it has one.
    unready = os.path.join(os.path.dirname(path), _UNREADY + uuid.uuid4().hex)
    os.mkfifo(unready, 0o600)
    try:
        file = _open_reader(unready, mode)
        try:
            os.link(unready, path)
        except BaseException:
            os.close(file)
            raise
    finally:
        with contextlib.suppress(OSError):
            os.unlink(unready)
    return file


def _open_reader(path: str, mode: int) -> int:
    # Read-write: a read-only FIFO would poll as readable for ever once its last writer has left.
    file = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    with contextlib.suppress(PermissionError):  # it is another user's
        os.fchmod(file, mode)
    return file


def _tidy_away(path: str) -> None:
    """Remove an old unready FIFO: the process that was making it has died."""
    with contextlib.suppress(OSError):
        if time.time() - os.stat(path).st_mtime > _UNREADY_SECONDS:
            os.unlink(path)


def _tell_one(path: str) -> None:
    """Wake a listener that has a FIFO of its own; remove the FIFO if the listener has died."""
    file = _open_writer(path)
    if file is None:
        os.unlink(path)
        return
    _write(file)
    os.close(file)


def _remove_if_unread(path: str) -> None:
    file = _open_writer(path)
    if file is None:
        os.unlink(path)
    else:
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


def _close_all(files: OrderedDict[str, int]) -> None:
    while files:
        os.close(files.popitem()[1])
