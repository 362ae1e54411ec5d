"""Wake-ups between threads and processes, without polling.

Beside the database is a directory of FIFOs. Listeners for claimable jobs of the same kinds share
one FIFO, so that one written byte wakes one of them. Listeners to other topics have one each.
A wake-up writes to every FIFO of the queue and topic. A byte may be lost when the process that has
read it dies, so a wait also checks now and then whether anyone has written to the database.

A subscription has one FIFO for all queues and topics, in which each wake-up says what it is about.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import hashlib
import os
import select
import stat
import threading
import time
import uuid
import weakref
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Self

from ackline.errors import StoreError
from ackline.job import QueueKey
from ackline.stores.base import TOPICS, Subject, Topic
from ackline.stores.sqlite.connection import permissions

LOOK_EVERY = 1.0
"""Seconds within which a lost wake-up is noticed."""

MOST_KEPT_OPEN = 64
"""The most FIFOs kept open for the next byte: queues may outnumber a process's open files."""

_TICK = 50_000_000
"""Nanoseconds. If a directory had changed less than this before it was listed, it may have changed
again since, within the same tick of the file system's clock."""

LOOK_EVERY_WITHOUT_FIFOS = 0.02
"""The same on a file system without FIFOs, where the only way is to look often."""

EVERYTHING = "all"
"""How the names of FIFOs start that hear of all queues and topics."""

PIPE_BYTES = 256 * 1024
"""How much news a subscription can fall behind before some is lost."""

_RECORD = 17
_WRITE = 30 * _RECORD
"""Bytes written at once, all or none. A pipe has pages of 4 KiB that no write is split across, so
one that is full of small writes holds more than three quarters of its size."""

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


@functools.lru_cache(maxsize=4096)
def _record(topic: Topic, queue: QueueKey) -> bytes:
    """A piece of news as a subscription reads it."""
    return bytes([TOPICS.index(topic)]) + bytes.fromhex(queue_tag(queue))


class Wakes:
    """The wake-ups of one database file."""

    def __init__(self, database: str) -> None:
        self._database = database
        self._folder = f"{database}-wake"
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, int] = OrderedDict()
        weakref.finalize(self, _close_all, self._kept).atexit = False
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

    def subscribe(self, version: Callable[[], int]) -> SqliteSubscription:
        """Hear of many queues; `version` returns a number that changes with the database."""
        mode = permissions(self._database)
        _make_folder(self._folder, mode)
        return SqliteSubscription(self._folder, mode, version)

    def tell(self, news: Iterable[tuple[Topic, QueueKey]]) -> None:
        """Wake the listeners; never fails, because the work itself is done already."""
        with self._lock:
            self._look()
            if not self._listed:
                return
            records: list[bytes] = []
            for topic, queue in news:
                for path in self._listed.get(f"{topic}.{queue_tag(queue)}", ()):
                    # A listener that cannot be woken must not keep the others from it.
                    with contextlib.suppress(OSError):
                        if topic == "ready":
                            self._write_to_kept(path, b"w")
                        else:
                            _tell_one(path)
                if EVERYTHING in self._listed:
                    records.append(_record(topic, queue))
            if records:
                self._tell_subscriptions(b"".join(records))

    def forget_queue(self, queue: QueueKey) -> None:
        """Remove the shared FIFOs of a dropped queue that nobody reads any more."""
        with self._lock:
            self._look()
            for path in self._listed.get(f"ready.{queue_tag(queue)}", ()):
                file = self._kept.pop(path, None)
                if file is not None:
                    os.close(file)
                with contextlib.suppress(OSError):
                    _remove_if_unread(path)

    def close(self) -> None:
        """Close the FIFOs that are kept open for writing."""
        with self._lock:
            _close_all(self._kept)

    def forget(self) -> None:
        """In a forked child: close the inherited FIFOs, which are the parent's."""
        self._lock = threading.Lock()
        self.close()

    def _tell_subscriptions(self, records: bytes) -> None:
        for path in self._listed.get(EVERYTHING, ()):
            with contextlib.suppress(OSError):
                for start in range(0, len(records), _WRITE):
                    if not self._write_to_kept(path, records[start : start + _WRITE]):
                        os.unlink(path)  # its reader has died
                        break

    def _write_to_kept(self, path: str, data: bytes) -> bool:
        """Write to a FIFO, and keep it open for the next time; False when nobody reads it.

        Unless it is unlinked, somebody may be about to open it.
        """
        file = self._kept.pop(path, None)
        if file is not None and not _write(file, data):
            # Nobody reads this FIFO any more; there may be a new one of this name.
            os.close(file)
            file = None
        if file is None:
            file = _open_writer(path)
            if file is None:
                return False
            _write(file, data)
        self._kept[path] = file
        if len(self._kept) > MOST_KEPT_OPEN:
            os.close(self._kept.popitem(last=False)[1])
        return True

    def _look(self) -> None:
        """Find out who listens, if that has changed."""
        try:
            changed = os.stat(self._folder).st_mtime_ns
            if changed != self._listed_at:
                self._list(changed)
        except FileNotFoundError:
            self._listed, self._listed_at = {}, -1
        except OSError:
            pass  # as before, then: whoever waits looks now and then itself

    def _list(self, changed: int) -> None:
        before = time.time_ns()
        self._listed = {}
        for name in os.listdir(self._folder):
            path = os.path.join(self._folder, name)
            if name.startswith(_UNREADY):
                _tidy_away(path)
                continue
            self._listed.setdefault(name.rpartition(".")[0], []).append(path)
        self._listed_at = changed if before - changed > _TICK else -1


class _Waiter(ABC):
    """Waits on FIFOs, on a pipe for `wake`, and now and then looks at the database."""

    def __init__(self, version: Callable[[], int], seen: int) -> None:
        self._version = version
        self._seen = seen
        self._inner, self._outer = os.pipe()
        os.set_blocking(self._inner, False)
        os.set_blocking(self._outer, False)
        self._closing = threading.Lock()
        self._closed = False

    def _changed(self) -> bool:
        """Whether anyone has written to the database since the last look."""
        before = self._seen
        try:
            self._seen = self._version()
        except StoreError:
            # Closed, or in trouble: the waiting caller finds out by its next call.
            return True
        return self._seen != before

    @abstractmethod
    def _close_fifos(self) -> None: ...

    def wake(self) -> None:
        with self._closing, contextlib.suppress(BlockingIOError):
            if not self._closed:
                os.write(self._outer, b"w")

    def close(self) -> None:
        with self._closing:
            if self._closed:
                return
            self._closed = True
            os.close(self._inner)
            os.close(self._outer)
            self._close_fifos()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


class SqliteListener(_Waiter):
    """Hears of one topic of some queues, by a FIFO for each."""

    def __init__(
        self, paths: list[str], mode: int, version: Callable[[], int], seen: int, *, shared: bool
    ) -> None:
        super().__init__(version, seen)
        self._shared = shared
        self._paths = paths
        opened = (_open_fifo(path, mode, shared) for path in paths)
        self._files = [file for file in opened if file is not None]
        self._every = LOOK_EVERY if len(self._files) == len(paths) else LOOK_EVERY_WITHOUT_FIFOS
        self._poll = select.poll()
        for file in (self._inner, *self._files):
            self._poll.register(file, select.POLLIN)

    def wait(self, timeout: float) -> bool:
        now = time.monotonic()
        end, look_at = now + timeout, now + self._every
        while not self._closed:
            ready = self._poll.poll(max((min(end, look_at) - now) * 1000, 0))
            # All are emptied, so that one wake-up is not answered twice.
            if sum([_drain(file) for file, _ in ready]):
                self._changed()
                return True
            now = time.monotonic()
            if now >= end:
                return False
            if now >= look_at:
                if self._changed():
                    return True
                look_at = now + self._every
        return True

    def _close_fifos(self) -> None:
        for file in self._files:
            os.close(file)
        if not self._shared:
            for path in self._paths:
                with contextlib.suppress(OSError):
                    os.unlink(path)


class SqliteSubscription(_Waiter):
    """Hears of many subjects by one FIFO, which exists while there are any."""

    def __init__(self, folder: str, mode: int, version: Callable[[], int]) -> None:
        super().__init__(version, seen=-1)
        self._path = os.path.join(folder, f"{EVERYTHING}.{os.getpid()}-{uuid.uuid4().hex}")
        self._mode = mode
        self._subjects: dict[bytes, Subject] = {}
        self._added: set[Subject] = set()
        self._file: int | None = None
        self._capacity = 0

    def add(self, subjects: Iterable[Subject]) -> None:
        for subject in subjects:
            queue, topic = subject
            self._subjects[_record(topic, queue)] = subject
            self._added.add(subject)

    def remove(self, subjects: Iterable[Subject]) -> None:
        for subject in subjects:
            queue, topic = subject
            self._subjects.pop(_record(topic, queue), None)
            self._added.discard(subject)

    def wait(self, timeout: float) -> Collection[Subject] | None:
        if self._closed:
            return set()
        self._open_or_close()
        news, self._added = self._added, set()
        return self._poll(0.0 if news else timeout, news)

    def _poll(self, timeout: float, news: set[Subject]) -> Collection[Subject] | None:
        until = time.monotonic() + timeout
        files = [self._inner] if self._file is None else [self._inner, self._file]
        blind = self._file is None and bool(self._subjects)
        while True:
            left = max(0.0, until - time.monotonic())
            pause = min(left, LOOK_EVERY_WITHOUT_FIFOS) if blind else left
            ready = _readable(files, pause)
            if self._inner in ready:
                _drain(self._inner)
            if self._file in ready:
                heard = self._read()
                return None if heard is None else news | heard
            if blind and self._changed():
                return None
            if ready or left <= pause:
                return news

    def _read(self) -> set[Subject] | None:
        """What has come; None if some may not have found room."""
        assert self._file is not None
        try:
            data = os.read(self._file, self._capacity)
        except BlockingIOError:
            return set()
        if len(data) > self._capacity * 3 // 4:
            return None
        records = {data[at : at + _RECORD] for at in range(0, len(data), _RECORD)}
        return {self._subjects[record] for record in records if record in self._subjects}

    def _open_or_close(self) -> None:
        if self._subjects and self._file is None:
            with contextlib.suppress(OSError):  # this file system has no FIFOs
                self._file = _make_fifo(self._path, self._mode)
                self._capacity = _enlarge(self._file)
        elif not self._subjects and self._file is not None:
            self._close_fifos()

    def _close_fifos(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            os.close(file)
            with contextlib.suppress(OSError):
                os.unlink(self._path)


def _readable(files: Iterable[int], seconds: float) -> set[int]:
    poll = select.poll()
    for file in files:
        poll.register(file, select.POLLIN)
    return {file for file, _ in poll.poll(seconds * 1000)}


def _enlarge(file: int) -> int:
    """Make a FIFO hold more where that is possible; returns how many bytes it holds."""
    if not hasattr(fcntl, "F_SETPIPE_SZ"):
        return 16384  # the least of the systems that do not tell
    with contextlib.suppress(OSError):  # the user has too much in pipes
        fcntl.fcntl(file, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    return fcntl.fcntl(file, fcntl.F_GETPIPE_SZ)


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
    _write(file, b"w")
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


def _write(file: int, data: bytes) -> bool:
    """Write all or nothing; False when nobody reads any more. A full FIFO wakes its reader."""
    try:
        os.write(file, data)
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
