"""A file opened by one process: its writer, its read connections, and what happens at a fork."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import apsw

from ackline.core.errors import StoreClosed, StoreError, StoreUnavailable
from ackline.core.job import QueueKey
from ackline.stores.contract import Topic
from ackline.stores.sqlite.io.connection import (
    Durability,
    Execute,
    connect_reader,
    translate_error,
    translate_os_error,
)
from ackline.stores.sqlite.io.group_commit import GroupCommit
from ackline.stores.sqlite.io.transaction import Operation
from ackline.stores.sqlite.io.writer import Writer

T = TypeVar("T")

logger = logging.getLogger("ackline")

MAX_IDLE_CONNECTIONS = 16
"""The most idle read connections kept; many concurrent reads are rare, and each has open files."""

FORK_TIMEOUT = 10.0
"""Seconds that a fork waits for a running call: longer than a call takes."""


class Engine:
    """A file opened by one process."""

    def __init__(
        self,
        path: str,
        durability: Durability,
        notify: Callable[[set[tuple[Topic, QueueKey]]], None],
    ) -> None:
        self.path = path
        self._durability = durability
        self._notify = notify
        self._reset()
        _fork_hooks.add(self)

    def _reset(self) -> None:
        self._open = False
        self._forked_during_call = False
        self.inherited = False
        """Whether the file was opened by the process from which this one was forked."""
        self._group = GroupCommit(self._commit)
        # Reentrant, because a thread may fork in the middle of its own write.
        self._writing = threading.RLock()
        self._writer = Writer(self.path, self._durability)
        self._read_connections = ReadConnections(self.path)

    # --- opening and closing ---

    def open(self) -> None:
        """Connect, check that the file is Ackline's, migrate."""
        if self.inherited:
            self._require_no_fork_during_call()
            self._reset()
        with self._writing, self.translate_errors():
            if self._open:
                return
            self._writer.open()
            self._read_connections = ReadConnections(self.path)
            self._open = True

    def close(self) -> None:
        """Close the file. Safe to call twice, and in a forked child."""
        if not self._open:
            return
        with self._writing:
            self._open = False
            self._read_connections.close()
            self._writer.close()

    def require_open(self) -> None:
        """Raise an error if the store is closed."""
        if self._open:
            return
        if self.inherited:
            raise StoreUnavailable(
                f"the store {self.path} was opened before this process was forked: "
                "call open() again in the child"
            )
        raise StoreClosed(f"the store {self.path} is closed: call open() first")

    def _require_no_fork_during_call(self) -> None:
        if self._forked_during_call:
            raise StoreUnavailable(
                f"this process was forked during a call to the store {self.path} and cannot use "
                "it: fork before using the store, or start a new process"
            )

    @contextlib.contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Raise SQLite's errors as Ackline's."""
        try:
            yield
        except (apsw.Error, OSError) as error:
            raise self._translate(error) from error

    def _translate(self, error: apsw.Error | OSError) -> StoreError:
        if isinstance(error, OSError):
            return translate_os_error(error, self.path)
        return translate_error(error, self.path)

    # --- forking ---

    def prepare_fork(self, timeout: float) -> bool:
        """Before a fork: block all calls and close everything; False if that is not possible.

        A SQLite connection must not cross a fork, not even an idle one. A child that opens the file
        while it has an inherited connection would believe that it holds its parent's locks, and
        another process could then remove the log that the child writes to.
        """
        if not self._writing.acquire(timeout=timeout):
            return False
        try:
            is_ready = self._read_connections.pause(timeout) and self._writer.close_for_fork()
        except BaseException:
            self.resume_after_fork()
            raise
        if not is_ready:
            self.resume_after_fork()
        return is_ready

    def resume_after_fork(self) -> None:
        """After a fork, in the parent: allow calls again."""
        self._read_connections.resume()
        self._writing.release()

    def reset_in_child(self, prepared: bool) -> None:
        """After a fork, in the child: give up the connections, which belong to the parent."""
        inherited = self.inherited or self._open
        forked_during_call = self._forked_during_call
        if self._open and not prepared:
            forked_during_call = True
            _INHERITED_CONNECTIONS.append((self._writer.connection, self._read_connections))
        self._reset()
        self.inherited, self._forked_during_call = inherited, forked_during_call

    # --- writing ---

    def write(self, operation: Operation[T]) -> T:
        """Run an operation in a transaction, alone or with others; durable once this returns."""
        try:
            return self._group.run(operation)
        except (apsw.Error, OSError) as error:
            raise self._translate(error) from error

    def _commit(self, operations: list[Operation[Any]]) -> list[Any]:
        with self._writing:
            self.require_open()
            answers, wakeups = self._writer.commit(operations)
        if wakeups:
            self._writer.follow_up(self._notify, wakeups)
        return answers

    # --- reading ---

    @contextlib.contextmanager
    def read(self) -> Iterator[Execute]:
        """Run statements that all read the same snapshot."""
        with self.translate_errors():
            self._require_connected()
            with self._read_connections.read() as execute:
                yield execute

    def version(self) -> int:
        """A number that changes whenever any process has written to the file."""
        with self.translate_errors():
            self._require_connected()
            return self._read_connections.version()

    def _require_connected(self) -> None:
        self.require_open()
        if self._writer.connection is None:
            # Closed for a fork. Read connections, too, need the writer's lock that keeps the log.
            with self._writing:
                self.require_open()
                self._writer.connected()


_INHERITED_CONNECTIONS: list[Any] = []
"""Connections inherited by a forked child, kept so that garbage collection never closes them."""


class ReadConnections:
    """Connections that only read and never block a writer, each used by one caller at a time."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._changed = threading.Condition()
        self._idle: list[apsw.Connection] = []
        self._reading = 0
        self._paused = False
        self._closed = False
        self._version_lock = threading.Lock()
        self._version_connection: apsw.Connection | None = None
        self._version_connections = 0

    @contextlib.contextmanager
    def read(self) -> Iterator[Execute]:
        """Run statements that all read one snapshot. Keep it short: it blocks checkpoints."""
        with self._counted():
            reader = self._acquire()
            try:
                reader.execute("BEGIN")
                yield reader.execute
            finally:
                self._release(reader)

    def version(self) -> int:
        """A number that changes whenever any process has written to the file."""
        with self._counted(), self._version_lock:
            if self._version_connection is None:
                # Always the same connection, because the number is only meaningful within one.
                self._version_connection = connect_reader(self._path)
                self._version_connections += 1
            execute: Execute = self._version_connection.execute
            version = int(execute("PRAGMA data_version").fetchall()[0][0])
            return (self._version_connections << 32) + version

    def close(self) -> None:
        """Close idle connections; one in use is closed when it is released."""
        with self._changed, self._version_lock:
            self._closed = True
            self._close_idle()

    def pause(self, timeout: float) -> bool:
        """Block all reads and close everything; False if a read runs longer than the timeout."""
        with self._changed:
            self._paused = True
            if not self._changed.wait_for(lambda: self._reading == 0, timeout):
                return False
            self._close_idle()
            return True

    def resume(self) -> None:
        """Allow reads again."""
        with self._changed:
            self._paused = False
            self._changed.notify_all()

    def _close_idle(self) -> None:
        for connection in (*self._idle, self._version_connection):
            if connection is not None:
                connection.close()
        self._idle.clear()
        self._version_connection = None

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: not self._paused)
            self._reading += 1
        try:
            yield
        finally:
            with self._changed:
                self._reading -= 1
                if self._paused:
                    self._changed.notify_all()

    def _acquire(self) -> apsw.Connection:
        with self._changed:
            if self._idle:
                return self._idle.pop()
        return connect_reader(self._path)

    def _release(self, reader: apsw.Connection) -> None:
        try:
            if reader.in_transaction:
                reader.execute("ROLLBACK")
        except BaseException:
            # The state of the connection is unknown.
            reader.close(True)
            raise
        with self._changed:
            if not self._closed and len(self._idle) < MAX_IDLE_CONNECTIONS:
                self._idle.append(reader)
                return
        reader.close()


class _ForkHooks:
    """Closes every open file before a fork, so that the child inherits no connection."""

    def __init__(self) -> None:
        self._engines: weakref.WeakSet[Engine] = weakref.WeakSet()
        self._lock = threading.RLock()
        self._prepared: list[Engine] = []

    def add(self, engine: Engine) -> None:
        self._engines.add(engine)

    def before(self) -> None:
        self._lock.acquire()
        for engine in list(self._engines):
            try:
                if engine.prepare_fork(FORK_TIMEOUT):
                    self._prepared.append(engine)
            except Exception:
                logger.exception("could not prepare for a fork")

    def after_in_parent(self) -> None:
        prepared, self._prepared = self._prepared, []
        for engine in prepared:
            engine.resume_after_fork()
        self._lock.release()

    def after_in_child(self) -> None:
        prepared, self._prepared = self._prepared, []
        self._lock = threading.RLock()
        for engine in list(self._engines):
            engine.reset_in_child(any(engine is other for other in prepared))


_fork_hooks = _ForkHooks()
os.register_at_fork(
    before=_fork_hooks.before,
    after_in_parent=_fork_hooks.after_in_parent,
    after_in_child=_fork_hooks.after_in_child,
)
