"""The connection that writes the file, under the write lock, and the log it keeps small."""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable
from typing import Any, TypeVar

import apsw

from ackline.core.errors import StoreError, StoreUnavailable
from ackline.stores.sqlite.io.connection import (
    BUSY_TIMEOUT,
    Durability,
    connect,
    file_identity,
    translate_error,
)
from ackline.stores.sqlite.io.group_commit import CommitUncertain, run_all
from ackline.stores.sqlite.io.locks import OpenFileLock, WriteLock
from ackline.stores.sqlite.io.migrate import first_connection
from ackline.stores.sqlite.io.transaction import Operation, Transaction, Wakeups

T = TypeVar("T")

logger = logging.getLogger("ackline")

WRITE_LOCK_SHARE = 0.5
"""The share of the busy timeout for which a writer waits for the write lock, then does without."""

MAX_WAL_BYTES = 8 * 1024 * 1024
"""The size in bytes above which the log is truncated, unless readers block it."""

CHECKPOINT_INTERVAL = 0.5
"""Seconds between two attempts to truncate the log."""

FILE_CHECK_INTERVAL = 0.05
"""Seconds after which a writer checks again that its files were not replaced, and how long the log
is."""


class Writer:
    """Writes a file, for one thread at a time."""

    def __init__(self, path: str, durability: Durability) -> None:
        self.path = path
        self.connection: apsw.Connection | None = None
        self._transaction: Transaction | None = None
        self.write_lock = WriteLock(path)
        self._durability = durability
        self._open_file_lock = OpenFileLock(path)
        self._identity: tuple[int, int] | None = None
        self._next_check_at = 0.0
        self._log = f"{path}-wal"
        self._log_identity: tuple[int, int] | None = None
        self._log_size = 0
        self._next_checkpoint_at = 0.0

    # --- opening and closing ---

    def open(self) -> None:
        """Connect, check that the file is Ackline's, migrate."""
        self._use_connection(first_connection(self.path, self._durability))
        self._identity = file_identity(self.path)

    def connected(self) -> Transaction:
        """The transaction to write through; after a fork, on a new connection."""
        return self._transaction or self._use_connection(connect(self.path, self._durability))

    def close_for_fork(self) -> bool:
        """Close the file during a fork; False if a transaction is open."""
        if self.connection is not None and self.connection.in_transaction:
            return False
        # A checkpoint would only take time: the file is in use again immediately.
        self._close_connection(checkpoint=False)
        self.write_lock.close()
        return True

    def close(self) -> None:
        """Close the file."""
        self.write_lock.close()
        self._close_connection(checkpoint=not self._log_removed())

    def _use_connection(self, connection: apsw.Connection) -> Transaction:
        self.connection, self._transaction = connection, Transaction(connection)
        self._open_file_lock.acquire()
        self._log_identity = file_identity(self._log)
        return self._transaction

    def _close_connection(self, *, checkpoint: bool) -> None:
        connection, self.connection, self._transaction = self.connection, None, None
        if connection is None:
            return
        if not checkpoint:
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        with self._open_file_lock.released():
            connection.close()

    # --- writing ---

    def commit(self, operations: list[Operation[Any]]) -> tuple[list[Any], Wakeups]:
        """Run operations in one transaction, durable once this returns with their wake-ups."""
        transaction = self.connected()
        self._require_same_file()
        try:
            self._begin(transaction)
            answers = run_all(transaction, operations)
            self._commit(transaction)
            if self._log_size >= MAX_WAL_BYTES:
                self.follow_up(self._checkpoint, transaction.connection)
        finally:
            self._end(transaction.connection)
        return answers, transaction.wakeups

    def follow_up(self, step: Callable[[T], None], argument: T) -> None:
        """Run a step after a commit: the data is written, so its failure must not fail the call."""
        try:
            step(argument)
        except Exception as error:
            logger.warning(
                "%s: the data was written, but a later step failed: %r", self.path, error
            )

    def _begin(self, transaction: Transaction) -> None:
        if self._acquire_write_lock():
            transaction.begin()
            return
        # Without the write lock, SQLite's own lock decides.
        connection = transaction.connection
        connection.set_busy_timeout(int(BUSY_TIMEOUT * 1000 * (1 - WRITE_LOCK_SHARE)))
        try:
            transaction.begin()
        finally:
            connection.set_busy_timeout(int(BUSY_TIMEOUT * 1000))

    def _acquire_write_lock(self) -> bool:
        try:
            return self.write_lock.acquire(BUSY_TIMEOUT * WRITE_LOCK_SHARE)
        except OSError as error:
            logger.warning("%s-lock: %s; writing without the lock", self.path, error)
            return False

    def _commit(self, transaction: Transaction) -> None:
        try:
            transaction.commit()
        except apsw.FullError as error:
            raise CommitUncertain(translate_error(error, self.path)) from error
        except apsw.Error as error:
            raise CommitUncertain(_uncertain(error, self.path)) from error

    def _end(self, connection: apsw.Connection) -> None:
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except apsw.Error as error:
            logger.warning("%s: could not roll back: %s", self.path, error)
        try:
            self.write_lock.release()
        except OSError as error:
            logger.warning("%s-lock: %s", self.path, error)

    # --- the file and its log ---

    def _require_same_file(self) -> None:
        """Refuse to write into a deleted file, as SQLite itself would."""
        now = time.monotonic()
        if now < self._next_check_at:
            return
        if file_identity(self.path) != self._identity:
            raise StoreUnavailable(
                f"{self.path} was deleted or replaced while it was open: "
                "nothing was written. Put it back, or close the store and open it again"
            )
        if self._log_removed():
            raise StoreUnavailable(
                f"{self._log} was removed while it was in use: nothing was written. "
                "Close the store and open it again"
            )
        # Without the lock that keeps the log, check before each write.
        self._next_check_at = now + FILE_CHECK_INTERVAL if self._open_file_lock.is_locked else now

    def _log_removed(self) -> bool:
        """Whether the log was removed, so that other processes would not read it."""
        try:
            status = os.stat(self._log)
        except OSError:
            return True
        self._log_size = status.st_size
        return (status.st_dev, status.st_ino) != self._log_identity

    def _checkpoint(self, connection: apsw.Connection) -> None:
        """Copy the log to the file and truncate it; if a reader blocks it, try again later."""
        now = time.monotonic()
        if now < self._next_checkpoint_at:
            return
        self._next_checkpoint_at, self._log_size = now + CHECKPOINT_INTERVAL, 0
        # Do not wait for readers, because other writers wait for this one.
        connection.set_busy_timeout(50)
        try:
            with contextlib.suppress(apsw.BusyError):
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        finally:
            connection.set_busy_timeout(int(BUSY_TIMEOUT * 1000))


def _uncertain(error: apsw.Error, path: str) -> StoreError:
    return StoreUnavailable(
        f"{path}: the commit failed ({error}), so it may or may not be done: send it again"
    )
