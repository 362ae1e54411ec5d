"""One file, opened by one process: its connections, its transactions, its log."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import apsw

from ackline.errors import StoreUnavailable
from ackline.job import QueueKey
from ackline.stores.base import Topic
from ackline.stores.sqlite.connection import (
    BUSY_SECONDS,
    Durability,
    Execute,
    connect,
    explain,
)
from ackline.stores.sqlite.group_commit import GroupCommit
from ackline.stores.sqlite.migrate import check_owner, migrate
from ackline.stores.sqlite.readers import Readers
from ackline.stores.sqlite.transaction import Operation, Transaction, run_all
from ackline.stores.sqlite.turn import Turn

T = TypeVar("T")

LONGEST_LOG = 8 * 1024 * 1024
"""Above this many bytes the write-ahead log is cut, readers willing."""


class Engine:
    """One file, opened by one process."""

    def __init__(
        self,
        path: str,
        durability: Durability,
        tell: Callable[[set[tuple[Topic, QueueKey]]], None],
    ) -> None:
        self.path = path
        self._durability = durability
        self._tell = tell
        self._reset()

    def _reset(self) -> None:
        self._owner = 0
        self._writer: apsw.Connection | None = None
        self._turn = Turn(f"{self.path}-lock")
        self._group = GroupCommit(self._commit)
        self._writing = threading.Lock()
        self._readers = Readers(self.path)
        self._next_cut = LONGEST_LOG

    # --- opening and closing ---

    def open(self) -> None:
        """Connect, check whose file it is, migrate."""
        if self.inherited:
            # A connection must not cross a fork, not even to be closed.
            _LEFT_TO_THE_PARENT.append((self._writer, self._readers, self._turn))
            self._reset()
        if self._writer is not None:
            return
        with self.explained():
            if os.path.exists(self.path) and os.path.getsize(self.path):
                self._look_first()
            writer = connect(self.path, self._durability)
            try:
                if writer.readonly("main"):
                    # SQLite opens it without a word, and would fail at the first write.
                    raise apsw.ReadOnlyError(self.path)
                migrate(writer, self.path)
            except BaseException:
                writer.close()
                raise
        self._readers = Readers(self.path)
        self._writer = writer
        self._owner = os.getpid()

    def _look_first(self) -> None:
        # Before the journal mode is set: that would already change a file of another program.
        reader = apsw.Connection(self.path, flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            reader.set_busy_timeout(int(BUSY_SECONDS * 1000))
            check_owner(reader, self.path)
        finally:
            reader.close()

    @property
    def inherited(self) -> bool:
        """Whether this process was forked from the one that opened the file."""
        return self._owner not in (0, os.getpid())

    def close(self) -> None:
        """Let go of the file. Safe to call twice, and in a forked child."""
        if self._writer is None or self.inherited:
            return
        with self._writing:
            writer, self._writer = self._writer, None
            self._readers.close()
            self._turn.close()
            if writer is not None:
                writer.close()

    def _require_open(self) -> apsw.Connection:
        writer = self._writer
        if writer is None:
            raise StoreUnavailable(f"the store {self.path} is closed: call open() first")
        if self.inherited:
            raise StoreUnavailable(
                f"the store {self.path} was opened before this process was forked: "
                "call open() again in the child"
            )
        return writer

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        """Raise SQLite's errors as Ackline's."""
        try:
            yield
        except apsw.Error as error:
            raise explain(error, self.path) from error
        except OSError as error:
            raise StoreUnavailable(f"{self.path}: {error.strerror or error}") from error

    # --- writing ---

    def write(self, operation: Operation[T]) -> T:
        """Run an operation in a transaction, alone or with others; the answer is durable."""
        self._require_open()
        with self.explained():
            return self._group.run(operation)

    def _commit(self, operations: list[Operation[Any]]) -> list[Any]:
        with self._writing:
            transaction = Transaction(self._require_open())
            answers = self._commit_in(transaction, operations)
        if transaction.wakes:
            self._tell(transaction.wakes)
        return answers

    def _commit_in(self, transaction: Transaction, operations: list[Operation[Any]]) -> list[Any]:
        if not self._turn.take(BUSY_SECONDS):
            raise apsw.BusyError("waited too long for the turn to write")
        try:
            transaction.execute("BEGIN IMMEDIATE")
            answers = run_all(transaction, operations)
            transaction.execute("COMMIT")
            self._cut_log(transaction.connection)
        finally:
            self._roll_back()
            self._turn.leave()
        return answers

    def _roll_back(self) -> None:
        writer = self._writer
        if writer is not None and writer.in_transaction:
            with contextlib.suppress(apsw.Error):
                writer.execute("ROLLBACK")

    def _cut_log(self, writer: apsw.Connection) -> None:
        try:
            size = os.stat(f"{self.path}-wal").st_size
        except OSError:
            return
        if size < self._next_cut:
            self._next_cut = max(LONGEST_LOG, min(self._next_cut, size + LONGEST_LOG // 8))
            return
        # A reader may stand in the way. Do not wait for it: writers wait for us. Try later.
        writer.set_busy_timeout(50)
        try:
            writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            self._next_cut = LONGEST_LOG
        except apsw.Error:
            self._next_cut = size + LONGEST_LOG // 8
        finally:
            writer.set_busy_timeout(int(BUSY_SECONDS * 1000))

    # --- reading ---

    @contextlib.contextmanager
    def read(self) -> Iterator[Execute]:
        """Run statements that all see one moment."""
        self._require_open()
        with self.explained(), self._readers.read() as execute:
            yield execute

    def version(self) -> int:
        """A number that changes whenever anyone has written."""
        self._require_open()
        with self.explained():
            return self._readers.version()


_LEFT_TO_THE_PARENT: list[Any] = []
"""What a forked child inherited: kept, so that it is never closed by the garbage collector."""
