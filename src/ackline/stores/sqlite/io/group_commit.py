"""Group commit: concurrent callers share one transaction, and a lone caller needs no extra thread.

A caller that finds nobody writing becomes the leader and commits its own operation immediately.
Callers that arrive meanwhile wait. Then the first of them becomes the leader and commits its
operation with all others in one transaction. So fifty callers pay for one sync of the disk.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, TypeVar

import apsw

from ackline.core.errors import StoreError, StoreUnavailable
from ackline.stores.sqlite.io.transaction import Operation, Transaction

T = TypeVar("T")
Item = TypeVar("Item")

logger = logging.getLogger("ackline")

GROUP_LIMIT = 64
"""The most operations in one commit: more would gain little and make other processes wait."""

Commit = Callable[[list[Operation[Any]]], list[Any]]
"""Runs operations in one transaction: all of them, or none if it raises."""


class MergeableOperation(Generic[Item, T]):
    """An operation with a result for each item, which is cheaper if several calls run as one."""

    __slots__ = ("items", "key", "run")

    def __init__(
        self,
        key: Hashable,
        items: Sequence[Item],
        run: Callable[[Transaction, Sequence[Item]], list[T]],
    ) -> None:
        self.key = key
        self.items = items
        self.run = run

    def __call__(self, tx: Transaction) -> list[T]:
        return self.run(tx, self.items)


def run_all(tx: Transaction, operations: Sequence[Operation[Any]]) -> list[Any]:
    """Run the operations of concurrent callers, in any order, because none depends on another."""
    if len(operations) == 1:
        return [operations[0](tx)]
    answers: list[Any] = [None] * len(operations)
    mergeable: dict[Hashable, list[int]] = {}
    for index, operation in enumerate(operations):
        if isinstance(operation, MergeableOperation):
            mergeable.setdefault(operation.key, []).append(index)
        else:
            answers[index] = operation(tx)
    for indexes in mergeable.values():
        calls: list[Any] = [operations[index] for index in indexes]
        merged = iter(calls[0].run(tx, [item for call in calls for item in call.items]))
        for index, call in zip(indexes, calls, strict=True):
            answers[index] = [next(merged) for _ in call.items]
    return answers


class CommitUncertain(Exception):
    """The commit itself failed: no operation may be run again, and all get this error."""

    def __init__(self, error: StoreError) -> None:
        super().__init__(str(error))
        self.error = error


class _PendingOperation(Generic[T]):
    """The operation of a caller that waits for its answer or to become the leader."""

    __slots__ = ("answer", "error", "leads", "operation", "settled", "woken")

    def __init__(self, operation: Operation[T]) -> None:
        self.operation = operation
        self.answer: T
        self.error: Exception | None = None
        self.settled = False
        self.leads = False
        self.woken = threading.Lock()
        self.woken.acquire()

    def settle(self, answer: T) -> None:
        self.answer, self.settled = answer, True

    def refuse(self, error: Exception) -> None:
        self.error, self.settled = error, True

    def result(self) -> T:
        if self.error is not None:
            raise self.error
        if not self.settled:
            raise StoreUnavailable(
                "the thread that wrote it was interrupted, so it may or may not be done: "
                "send it again"
            )
        return self.answer


class GroupCommit:
    """Runs the operations of concurrent threads, one group at a time."""

    def __init__(self, commit: Commit) -> None:
        self._commit = commit
        self._lock = threading.Lock()
        self._has_leader = False
        self._pending: deque[_PendingOperation[Any]] = deque()

    @property
    def waiting(self) -> int:
        """How many operations wait for the current group."""
        return len(self._pending)

    def run(self, operation: Operation[T]) -> T:
        """Run an operation in a transaction, alone or with others; durable once it returns."""
        waiting, leads = None, False
        try:
            with self._lock:
                if self._has_leader:
                    waiting = _PendingOperation(operation)
                    self._pending.append(waiting)
                else:
                    self._has_leader = leads = True
            if waiting is not None:
                return self._wait(waiting)
            answer: T = self._commit([operation])[0]
        except CommitUncertain as uncertain:
            raise uncertain.error from uncertain
        finally:
            if leads:
                self._hand_over()
        return answer

    def _wait(self, waiting: _PendingOperation[T]) -> T:
        try:
            waiting.woken.acquire()
        except BaseException:
            self._give_up(waiting)
            raise
        if waiting.leads:
            self._lead(waiting)
        return waiting.result()

    def _give_up(self, waiting: _PendingOperation[Any]) -> None:
        with self._lock:
            if waiting in self._pending:
                self._pending.remove(waiting)
        if waiting.leads:
            self._hand_over()

    def _lead(self, leader: _PendingOperation[Any]) -> None:
        group = [leader]
        try:
            with self._lock:
                while self._pending and len(group) < GROUP_LIMIT:
                    group.append(self._pending.popleft())
            self._run(group)
        finally:
            self._hand_over()
            for waiting in group[1:]:
                waiting.woken.release()

    def _run(self, group: list[_PendingOperation[Any]]) -> None:
        try:
            answers = self._commit([waiting.operation for waiting in group])
        except apsw.BusyError as error:
            # No operation caused it, and each alone would wait as long again.
            _fail_all(group, error)
        except CommitUncertain as uncertain:
            # The operations may be done already.
            _fail_all(group, uncertain.error)
        except Exception as error:
            if len(group) == 1:
                _fail_all(group, error)
                return
            # Each gets its own transaction, so that only the failing one gets the error.
            logger.debug("one of %d writes failed: retrying each alone", len(group), exc_info=True)
            for waiting in group:
                self._run([waiting])
        else:
            for waiting, answer in zip(group, answers, strict=True):
                waiting.settle(answer)

    def _hand_over(self) -> None:
        with self._lock:
            if self._pending:
                leader = self._pending.popleft()
                leader.leads = True
                leader.woken.release()
            else:
                self._has_leader = False


def _fail_all(group: list[_PendingOperation[Any]], error: Exception) -> None:
    for waiting in group:
        waiting.refuse(error)
