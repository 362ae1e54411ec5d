"""One file, opened by one process: its connections and its transactions."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import apsw

from ackline.errors import StoreClosed, StoreError, StoreUnavailable
from ackline.job import QueueKey
from ackline.stores.base import Topic
from ackline.stores.sqlite.connection import (
    BUSY_SECONDS,
    Durability,
    Execute,
    connect,
    explain,
    explain_system,
)
from ackline.stores.sqlite.fork import let_rest_at_fork
from ackline.stores.sqlite.group_commit import GroupCommit, Undecided
from ackline.stores.sqlite.log import Log
from ackline.stores.sqlite.opening import first_connection, identity
from ackline.stores.sqlite.presence import Presence
from ackline.stores.sqlite.readers import Readers
from ackline.stores.sqlite.transaction import Operation, Transaction, run_all
from ackline.stores.sqlite.turn import Turn

T = TypeVar("T")

logger = logging.getLogger("ackline")

TURN_SHARE = 0.5
"""The part of the time a writer waits that it waits for its turn, before it goes without."""


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
        let_rest_at_fork(self)

    def _reset(self) -> None:
        self._owner = 0
        self._identity: tuple[int, int] | None = None
        self._torn = False
        self._writer: apsw.Connection | None = None
        self._turn = Turn(self.path)
        self._group = GroupCommit(self._commit)
        # Reentrant, for a thread may be forked in the middle of its own write.
        self._writing = threading.RLock()
        self._readers = Readers(self.path)
        self._presence = Presence(self.path)
        self._log = Log(self.path)

    # --- opening and closing ---

    def open(self) -> None:
        """Connect, check whose file it is, migrate."""
        if self.inherited:
            self._require_untorn()
            self._reset()
        with self._writing, self.explained():
            if self._owner:
                return
            self._settle_in(first_connection(self.path, self._durability))
            self._readers = Readers(self.path)
            self._identity = identity(self.path)
            self._owner = os.getpid()

    @property
    def inherited(self) -> bool:
        """Whether this process was forked from the one that opened the file."""
        return self._owner not in (0, os.getpid())

    def close(self) -> None:
        """Let go of the file. Safe to call twice, and in a forked child."""
        if not self._owner or self.inherited:
            return
        with self._writing:
            self._owner = 0
            self._readers.close()
            self._turn.close()
            self._let_go(copy_back=not self._log.removed())

    def _settle_in(self, writer: apsw.Connection) -> apsw.Connection:
        self._writer = writer
        self._presence.begin()
        self._log.remember()
        return writer

    def _let_go(self, *, copy_back: bool) -> None:
        writer, self._writer = self._writer, None
        if writer is None:
            return
        if not copy_back:
            writer.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        with self._presence.ending():
            writer.close()

    def _require_open(self) -> None:
        if not self._owner:
            raise StoreClosed(f"the store {self.path} is closed: call open() first")
        if self.inherited:
            raise StoreUnavailable(
                f"the store {self.path} was opened before this process was forked: "
                "call open() again in the child"
            )

    def _require_untorn(self) -> None:
        if self._torn:
            raise StoreUnavailable(
                f"this process was forked during a call to the store {self.path}, which cannot be "
                "used in it: fork before using the store, or start a new process"
            )

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        """Raise SQLite's errors as Ackline's."""
        try:
            yield
        except apsw.Error as error:
            raise explain(error, self.path) from error
        except OSError as error:
            raise explain_system(error, self.path) from error

    # --- forking ---

    def rest(self, timeout: float) -> bool:
        """Before a fork: let nobody in, and close everything; False if that cannot be.

        SQLite must not cross a fork, not even idle. A child that opened the file beside an
        inherited connection would think that it holds its parent's locks. Another process would
        then remove the log under its feet, with all that it writes.
        """
        if not self._writing.acquire(timeout=timeout):
            return False
        try:
            writer = self._writer
            resting = self._readers.pause(timeout)
            if resting and writer is not None:
                resting = not writer.in_transaction
            if resting:
                # To copy the log back would only take time: it is in use again at once.
                self._let_go(copy_back=False)
                self._turn.close()
        except BaseException:
            self.go_on()
            raise
        if not resting:
            self.go_on()
        return resting

    def go_on(self) -> None:
        """After a fork, in the parent."""
        self._readers.resume()
        self._writing.release()

    def inherit(self, rested: bool) -> None:
        """After a fork, in the child: what the parent opened is the parent's."""
        owner = self._owner
        torn = self._torn or (owner != 0 and not rested)
        if torn:
            _LEFT_TO_THE_PARENT.append((self._writer, self._readers))
        self._reset()
        self._owner, self._torn = owner, torn

    # --- writing ---

    def write(self, operation: Operation[T]) -> T:
        """Run an operation in a transaction, alone or with others; the answer is durable."""
        self._require_open()
        try:
            with self.explained():
                return self._group.run(operation)
        except Exception:
            raise
        except BaseException:
            self._tidy_up()
            raise

    def _commit(self, operations: list[Operation[Any]]) -> list[Any]:
        with self._writing:
            transaction = Transaction(self._require_writer())
            self._require_same_file()
            self._log.require_there()
            try:
                self._begin(transaction)
                answers = run_all(transaction, operations)
                self._make_safe(transaction)
                self._log.require_kept()
                self._follow_up(self._log.cut, transaction.connection)
            finally:
                self._end()
        if transaction.wakes:
            self._follow_up(self._tell, transaction.wakes)
        return answers

    def _require_same_file(self) -> None:
        # SQLite would go on in a file that nobody can open any more, and so lose every job.
        if identity(self.path) != self._identity:
            raise StoreUnavailable(
                f"{self.path} was deleted or replaced while it was open: "
                "nothing was written. Put it back, or close the store and open it again"
            )

    def _require_writer(self) -> apsw.Connection:
        self._require_open()
        if self._writer is None:
            return self._settle_in(connect(self.path, self._durability))
        return self._writer

    def _begin(self, transaction: Transaction) -> None:
        writer = transaction.connection
        if writer.in_transaction:
            # Left by one that was interrupted even while it tidied up.
            transaction.execute("ROLLBACK")
        if self._take_turn():
            transaction.execute("BEGIN IMMEDIATE")
            return
        # Waited in vain: without a turn, SQLite's own lock decides.
        writer.set_busy_timeout(int(BUSY_SECONDS * 1000 * (1 - TURN_SHARE)))
        try:
            transaction.execute("BEGIN IMMEDIATE")
        finally:
            writer.set_busy_timeout(int(BUSY_SECONDS * 1000))

    def _take_turn(self) -> bool:
        try:
            return self._turn.take(BUSY_SECONDS * TURN_SHARE)
        except OSError as error:
            logger.warning("%s-lock: %s; writing without a turn", self.path, error)
            return False

    def _make_safe(self, transaction: Transaction) -> None:
        try:
            transaction.execute("COMMIT")
        except apsw.FullError as error:
            raise Undecided(explain(error, self.path)) from error
        except apsw.Error as error:
            raise Undecided(_undecided(error, self.path)) from error

    def _end(self) -> None:
        try:
            writer = self._writer
            if writer is not None and writer.in_transaction:
                writer.execute("ROLLBACK")
        except apsw.Error as error:
            logger.warning("%s: could not roll back: %s", self.path, error)
        try:
            self._turn.leave()
        except OSError as error:
            logger.warning("%s-lock: %s", self.path, error)

    def _tidy_up(self) -> None:
        """After an interrupt, which may have come at any moment; the next writer does it too."""
        if self._writing.acquire(blocking=False):
            try:
                self._end()
            finally:
                self._writing.release()

    def _follow_up(self, step: Callable[[T], None], what: T) -> None:
        # It is written: no failure from here on may take the answer back.
        try:
            step(what)
        except Exception as error:
            logger.warning("%s: written, but then: %r", self.path, error)

    # --- reading ---

    @contextlib.contextmanager
    def read(self) -> Iterator[Execute]:
        """Run statements that all see one moment."""
        with self.explained():
            self._require_settled()
            with self._readers.read() as execute:
                yield execute

    def version(self) -> int:
        """A number that changes whenever anyone has written."""
        with self.explained():
            self._require_settled()
            return self._readers.version()

    def _require_settled(self) -> None:
        self._require_open()
        if self._writer is None:
            # Since a fork. Who reads needs the log to stay as much as who writes.
            with self._writing:
                self._require_writer()


def _undecided(error: apsw.Error, path: str) -> StoreError:
    return StoreUnavailable(
        f"{path}: the last step of writing failed ({error}), so it may be done or not: "
        "send it again"
    )


_LEFT_TO_THE_PARENT: list[Any] = []
"""What a forked child inherited: kept, so that it is never closed by the garbage collector."""
