"""One file, opened by one process: which of its threads may use it when, also around a fork."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import apsw

from ackline.errors import StoreClosed, StoreError, StoreUnavailable
from ackline.job import QueueKey
from ackline.stores.base import Topic
from ackline.stores.sqlite.connection import Durability, Execute, explain, explain_system
from ackline.stores.sqlite.fork import let_rest_at_fork
from ackline.stores.sqlite.group_commit import GroupCommit
from ackline.stores.sqlite.readers import Readers
from ackline.stores.sqlite.transaction import Operation
from ackline.stores.sqlite.writer import Writer

T = TypeVar("T")


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
        self._open = False
        self._torn = False
        self.inherited = False
        """Whether this process was forked from the one that opened the file."""
        self._group = GroupCommit(self._commit)
        # Reentrant, because a thread may fork in the middle of its own write.
        self._writing = threading.RLock()
        self._writer = Writer(self.path, self._durability)
        self._readers = Readers(self.path)

    # --- opening and closing ---

    def open(self) -> None:
        """Connect, check that the file is Ackline's, migrate."""
        if self.inherited:
            self._require_untorn()
            self._reset()
        with self._writing, self.explained():
            if self._open:
                return
            self._writer.open()
            self._readers = Readers(self.path)
            self._open = True

    def close(self) -> None:
        """Close the file. Safe to call twice, and in a forked child."""
        if not self._open:
            return
        with self._writing:
            self._open = False
            self._readers.close()
            self._writer.close()

    def require_open(self) -> None:
        """Refuse to work with a store that is closed."""
        if self._open:
            return
        if self.inherited:
            raise StoreUnavailable(
                f"the store {self.path} was opened before this process was forked: "
                "call open() again in the child"
            )
        raise StoreClosed(f"the store {self.path} is closed: call open() first")

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
        except (apsw.Error, OSError) as error:
            raise self._explain(error) from error

    def _explain(self, error: apsw.Error | OSError) -> StoreError:
        if isinstance(error, OSError):
            return explain_system(error, self.path)
        return explain(error, self.path)

    # --- forking ---

    def rest(self, timeout: float) -> bool:
        """Before a fork: block all calls and close everything; False if that is not possible.

        An SQLite connection must not cross a fork, not even an idle one. A child that opened the
        file while it has an inherited connection would believe that it holds its parent's locks.
        Another process could then remove the log that the child is writing to.
        """
        if not self._writing.acquire(timeout=timeout):
            return False
        try:
            resting = self._readers.pause(timeout) and self._writer.rest()
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
        """After a fork, in the child: connections that the parent opened stay the parent's."""
        inherited, torn = self.inherited or self._open, self._torn
        if self._open and not rested:
            torn = True
            _LEFT_TO_THE_PARENT.append((self._writer.connection, self._readers))
        self._reset()
        self.inherited, self._torn = inherited, torn

    # --- writing ---

    def write(self, operation: Operation[T]) -> T:
        """Run an operation in a transaction, alone or with others; durable once it returns."""
        try:
            return self._group.run(operation)
        except (apsw.Error, OSError) as error:
            raise self._explain(error) from error

    def _commit(self, operations: list[Operation[Any]]) -> list[Any]:
        with self._writing:
            self.require_open()
            answers, wakes = self._writer.commit(operations)
        if wakes:
            self._writer.follow_up(self._tell, wakes)
        return answers

    # --- reading ---

    @contextlib.contextmanager
    def read(self) -> Iterator[Execute]:
        """Run statements that all see the same snapshot."""
        with self.explained():
            self._require_settled()
            with self._readers.read() as execute:
                yield execute

    def version(self) -> int:
        """A number that changes whenever any process has written to the file."""
        with self.explained():
            self._require_settled()
            return self._readers.version()

    def _require_settled(self) -> None:
        self.require_open()
        if self._writer.connection is None:
            # Closed for a fork. Readers too rely on the writer's locks, which keep the log.
            with self._writing:
                self.require_open()
                self._writer.connected()


_LEFT_TO_THE_PARENT: list[Any] = []
"""Connections inherited by a forked child: kept, so that garbage collection never closes them."""
