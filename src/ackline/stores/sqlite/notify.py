"""Wake-ups between threads and processes, without polling.

Next to the database is a directory of FIFOs. Listeners to `ready` for the same kinds share a FIFO,
so that a byte wakes one of them. Listeners to other topics have one each. A notification is written
to every FIFO of the queue and topic. A byte may be lost when the process that has read it dies, so
a wait also checks now and then whether anyone has written to the database.

A subscription has one FIFO for all queues and topics; each message says what it is about.
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

from ackline.core.errors import StoreError
from ackline.core.job import QueueKey
from ackline.stores.contract import TOPICS, Subject, Topic
from ackline.stores.sqlite.io.connection import file_permissions

POLL_INTERVAL = 1.0
"""Seconds within which a lost notification is noticed."""

MAX_OPEN_FIFOS = 64
"""The most FIFOs kept open for writing: there may be more queues than a process may open files."""

_TICK = 50_000_000
"""Nanoseconds. If a directory changed less than this before it was listed, it may have changed
again since, within the same tick of the file system's clock."""

POLL_INTERVAL_WITHOUT_FIFOS = 0.02
"""The same on a file system without FIFOs, where listeners can only poll."""

SUBSCRIPTION_PREFIX = "all"
"""The prefix of the names of FIFOs for all queues and topics."""

PIPE_BYTES = 256 * 1024
"""How many bytes of messages a subscription can fall behind before some are lost."""

_MESSAGE_SIZE = 17
_WRITE = 30 * _MESSAGE_SIZE
"""Bytes per write, all or none. A pipe has pages of 4 KiB, and no write is split across two, so a
pipe that is full of small writes has more than three quarters of its size in use."""

_TEMPORARY_PREFIX = "new-"
"""The prefix of the name of a FIFO that has no reader yet."""

_TEMPORARY_MAX_AGE = 60.0
"""Seconds after which a FIFO without a reader is abandoned."""


@functools.lru_cache(maxsize=4096)
def queue_hash(queue: QueueKey) -> str:
    """A short, unique name of a queue for file names."""
    parts = f"{len(queue.tenant)}:{queue.tenant}{queue.name}"
    return hashlib.blake2b(parts.encode(), digest_size=16).hexdigest()


def kinds_hash(kinds: frozenset[str] | None) -> str:
    """A short, unique name of a set of kinds."""
    if kinds is None:
        return "all"
    parts = "".join(f"{len(kind)}:{kind}" for kind in sorted(kinds))
    return hashlib.blake2b(parts.encode(), digest_size=16).hexdigest()


@functools.lru_cache(maxsize=4096)
def _message(topic: Topic, queue: QueueKey) -> bytes:
    """A notification, as a subscription reads it."""
    return bytes([TOPICS.index(topic)]) + bytes.fromhex(queue_hash(queue))


class FifoNotifier:
    """Sends and receives the notifications of one database file."""

    def __init__(self, database: str) -> None:
        self._database = database
        self._folder = f"{database}-wake"
        self._lock = threading.Lock()
        self._open_fifos: OrderedDict[str, int] = OrderedDict()
        weakref.finalize(self, _close_all, self._open_fifos).atexit = False
        self._listed: dict[str, list[str]] = {}
        self._listed_mtime = -1

    def listen(
        self,
        queues: Sequence[QueueKey],
        topic: Topic,
        kinds: frozenset[str] | None,
        version: Callable[[], int],
    ) -> SqliteListener:
        """Create a listener; `version` returns a number that changes with the database."""
        shared = topic == "ready"
        listener = kinds_hash(kinds) if shared else f"{os.getpid()}-{uuid.uuid4().hex}"
        queue_names = [queue_hash(queue) for queue in dict.fromkeys(queues)]
        paths = [
            os.path.join(self._folder, f"{topic}.{queue_name}.{listener}")
            for queue_name in queue_names
        ]
        last_version, mode = version(), file_permissions(self._database)
        _make_folder(self._folder, mode)
        return SqliteListener(paths, mode, version, last_version, shared=shared)

    def subscribe(self, version: Callable[[], int]) -> SqliteSubscription:
        """Create a subscription; `version` returns a number that changes with the database."""
        mode = file_permissions(self._database)
        _make_folder(self._folder, mode)
        return SqliteSubscription(self._folder, mode, version)

    def notify(self, wakeups: Iterable[tuple[Topic, QueueKey]]) -> None:
        """Wake the listeners; never raises, because the change itself is already committed."""
        with self._lock:
            self._refresh_listeners()
            if not self._listed:
                return
            messages: list[bytes] = []
            for topic, queue in wakeups:
                for path in self._listed.get(f"{topic}.{queue_hash(queue)}", ()):
                    # A listener that cannot be woken must not affect the others.
                    with contextlib.suppress(OSError):
                        if topic == "ready":
                            self._write_to(path, b"w")
                        else:
                            _wake_listener(path)
                if SUBSCRIPTION_PREFIX in self._listed:
                    messages.append(_message(topic, queue))
            if messages:
                self._notify_subscriptions(b"".join(messages))

    def remove_queue(self, queue: QueueKey) -> None:
        """Remove the shared FIFOs of a dropped queue that have no reader."""
        with self._lock:
            self._refresh_listeners()
            for path in self._listed.get(f"ready.{queue_hash(queue)}", ()):
                file = self._open_fifos.pop(path, None)
                if file is not None:
                    os.close(file)
                with contextlib.suppress(OSError):
                    _remove_if_unread(path)

    def close(self) -> None:
        """Close the FIFOs that are kept open for writing."""
        with self._lock:
            _close_all(self._open_fifos)

    def close_in_child(self) -> None:
        """In a forked child: close the inherited FIFOs, which are the parent's."""
        self._lock = threading.Lock()
        self.close()

    def _notify_subscriptions(self, messages: bytes) -> None:
        for path in self._listed.get(SUBSCRIPTION_PREFIX, ()):
            with contextlib.suppress(OSError):
                for start in range(0, len(messages), _WRITE):
                    if not self._write_to(path, messages[start : start + _WRITE]):
                        os.unlink(path)  # its reader has died
                        break

    def _write_to(self, path: str, data: bytes) -> bool:
        """Write to a FIFO and keep it open for the next time; False if it has no reader."""
        file = self._open_fifos.pop(path, None)
        if file is not None and not _write(file, data):
            # This FIFO has no reader any more; there may be a new one with this name.
            os.close(file)
            file = None
        if file is None:
            file = _open_writer(path)
            if file is None:
                return False
            _write(file, data)
        self._open_fifos[path] = file
        if len(self._open_fifos) > MAX_OPEN_FIFOS:
            os.close(self._open_fifos.popitem(last=False)[1])
        return True

    def _refresh_listeners(self) -> None:
        """List the listeners again if the directory has changed."""
        try:
            changed = os.stat(self._folder).st_mtime_ns
            if changed != self._listed_mtime:
                self._list(changed)
        except FileNotFoundError:
            self._listed, self._listed_mtime = {}, -1
        except OSError:
            pass  # keep the old list: listeners also poll

    def _list(self, changed: int) -> None:
        before = time.time_ns()
        self._listed = {}
        for name in os.listdir(self._folder):
            path = os.path.join(self._folder, name)
            if name.startswith(_TEMPORARY_PREFIX):
                _remove_abandoned(path)
                continue
            self._listed.setdefault(name.rpartition(".")[0], []).append(path)
        self._listed_mtime = changed if before - changed > _TICK else -1


class _FifoListener(ABC):
    """Waits on FIFOs and on a pipe for `wake`, and polls the database now and then."""

    def __init__(self, version: Callable[[], int], last_version: int) -> None:
        self._version = version
        self._last_version = last_version
        self._wake_reader, self._wake_writer = os.pipe()
        os.set_blocking(self._wake_reader, False)
        os.set_blocking(self._wake_writer, False)
        self._close_lock = threading.Lock()
        self._closed = False

    def _changed(self) -> bool:
        """Whether anyone has written to the database since the last check."""
        before = self._last_version
        try:
            self._last_version = self._version()
        except StoreError:
            # Closed or failing: the next call of the waiting caller raises the error.
            return True
        return self._last_version != before

    @abstractmethod
    def _close_fifos(self) -> None: ...

    def wake(self) -> None:
        with self._close_lock, contextlib.suppress(BlockingIOError):
            if not self._closed:
                os.write(self._wake_writer, b"w")

    def close(self) -> None:
        with self._close_lock:
            if self._closed:
                return
            self._closed = True
            os.close(self._wake_reader)
            os.close(self._wake_writer)
            self._close_fifos()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


class SqliteListener(_FifoListener):
    """Waits for one topic of several queues, with a FIFO for each queue."""

    def __init__(
        self,
        paths: list[str],
        mode: int,
        version: Callable[[], int],
        last_version: int,
        *,
        shared: bool,
    ) -> None:
        super().__init__(version, last_version)
        self._shared = shared
        self._paths = paths
        opened = (_open_fifo(path, mode, shared) for path in paths)
        self._files = [file for file in opened if file is not None]
        self._poll_interval = (
            POLL_INTERVAL if len(self._files) == len(paths) else POLL_INTERVAL_WITHOUT_FIFOS
        )
        self._poll = select.poll()
        for file in (self._wake_reader, *self._files):
            self._poll.register(file, select.POLLIN)

    def wait(self, timeout: float) -> bool:
        now = time.monotonic()
        end, poll_at = now + timeout, now + self._poll_interval
        while not self._closed:
            ready = self._poll.poll(max((min(end, poll_at) - now) * 1000, 0))
            # Empty all of them, so that one notification does not wake twice.
            if sum([_drain(file) for file, _ in ready]):
                self._changed()
                return True
            now = time.monotonic()
            if now >= end:
                return False
            if now >= poll_at:
                if self._changed():
                    return True
                poll_at = now + self._poll_interval
        return True

    def _close_fifos(self) -> None:
        for file in self._files:
            os.close(file)
        if not self._shared:
            for path in self._paths:
                with contextlib.suppress(OSError):
                    os.unlink(path)


class SqliteSubscription(_FifoListener):
    """Waits for many subjects, with one FIFO, which exists while there are any."""

    def __init__(self, folder: str, mode: int, version: Callable[[], int]) -> None:
        super().__init__(version, last_version=-1)
        self._path = os.path.join(folder, f"{SUBSCRIPTION_PREFIX}.{os.getpid()}-{uuid.uuid4().hex}")
        self._mode = mode
        self._subjects: dict[bytes, Subject] = {}
        self._added: set[Subject] = set()
        self._file: int | None = None
        self._capacity = 0

    def add(self, subjects: Iterable[Subject]) -> None:
        for subject in subjects:
            queue, topic = subject
            self._subjects[_message(topic, queue)] = subject
            self._added.add(subject)

    def remove(self, subjects: Iterable[Subject]) -> None:
        for subject in subjects:
            queue, topic = subject
            self._subjects.pop(_message(topic, queue), None)
            self._added.discard(subject)

    def wait(self, timeout: float) -> Collection[Subject] | None:
        if self._closed:
            return set()
        self._open_or_close()
        added, self._added = self._added, set()
        return self._poll(0.0 if added else timeout, added)

    def _poll(self, timeout: float, added: set[Subject]) -> Collection[Subject] | None:
        until = time.monotonic() + timeout
        files = [self._wake_reader] if self._file is None else [self._wake_reader, self._file]
        without_fifo = self._file is None and bool(self._subjects)
        while True:
            left = max(0.0, until - time.monotonic())
            pause = min(left, POLL_INTERVAL_WITHOUT_FIFOS) if without_fifo else left
            ready = _readable(files, pause)
            if self._wake_reader in ready:
                _drain(self._wake_reader)
            if self._file in ready:
                notified = self._read()
                return None if notified is None else added | notified
            if without_fifo and self._changed():
                return None
            if ready or left <= pause:
                return added

    def _read(self) -> set[Subject] | None:
        """The subjects of all messages; None if the FIFO was full, so that some may be lost."""
        assert self._file is not None
        try:
            data = os.read(self._file, self._capacity)
        except BlockingIOError:
            return set()
        if len(data) > self._capacity * 3 // 4:
            return None
        messages = {data[at : at + _MESSAGE_SIZE] for at in range(0, len(data), _MESSAGE_SIZE)}
        return {self._subjects[message] for message in messages if message in self._subjects}

    def _open_or_close(self) -> None:
        if self._subjects and self._file is None:
            with contextlib.suppress(OSError):  # this file system has no FIFOs
                self._file = _make_fifo(self._path, self._mode)
                self._capacity = _set_pipe_size(self._file)
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


def _set_pipe_size(file: int) -> int:
    """Enlarge a FIFO where possible; returns its size in bytes."""
    if not hasattr(fcntl, "F_SETPIPE_SZ"):
        return 16384  # the smallest of the systems without this call
    with contextlib.suppress(OSError):  # beyond the user's limit
        fcntl.fcntl(file, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    return fcntl.fcntl(file, fcntl.F_GETPIPE_SZ)


def _make_folder(folder: str, mode: int) -> None:
    with contextlib.suppress(OSError):
        os.makedirs(folder, exist_ok=True)
        # Users who may read the directory may also search it.
        os.chmod(folder, mode | (mode & 0o444) >> 2)


def _open_fifo(path: str, mode: int, shared: bool) -> int | None:
    """Open a FIFO to wait on, created if necessary; None if the file system has no FIFOs."""
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
    temporary = os.path.join(os.path.dirname(path), _TEMPORARY_PREFIX + uuid.uuid4().hex)
    os.mkfifo(temporary, 0o600)
    try:
        file = _open_reader(temporary, mode)
        try:
            os.link(temporary, path)
        except BaseException:
            os.close(file)
            raise
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
    return file


def _open_reader(path: str, mode: int) -> int:
    # Read-write: a read-only FIFO polls as readable forever once its last writer has closed it.
    file = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    with contextlib.suppress(PermissionError):  # another user owns it
        os.fchmod(file, mode)
    return file


def _remove_abandoned(path: str) -> None:
    """Remove an old temporary FIFO, whose process has died."""
    with contextlib.suppress(OSError):
        if time.time() - os.stat(path).st_mtime > _TEMPORARY_MAX_AGE:
            os.unlink(path)


def _wake_listener(path: str) -> None:
    """Wake a listener that has its own FIFO; remove the FIFO if the listener has died."""
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
    """Open a FIFO for writing; None if it has no reader."""
    try:
        return os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ENXIO, errno.ENOENT):
            return None
        raise


def _write(file: int, data: bytes) -> bool:
    """Write all or nothing; False if there is no reader. A full FIFO counts: its reader wakes."""
    try:
        os.write(file, data)
    except BlockingIOError:
        return True
    except BrokenPipeError:
        return False
    return True


def _drain(file: int) -> int:
    """Empty a FIFO; another listener may have been faster."""
    try:
        return len(os.read(file, 65536))
    except (BlockingIOError, OSError):
        return 0


def _close_all(files: OrderedDict[str, int]) -> None:
    while files:
        os.close(files.popitem()[1])
