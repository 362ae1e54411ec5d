"""Group commit: concurrent callers share one transaction, and a lone caller needs no extra thread.

A caller that finds nobody writing leads: it commits its own operation at once. Those that come
meanwhile wait. Then the first of them leads and commits its operation with the others' in one
transaction. So fifty callers pay for one sync of the disk.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, TypeVar

import apsw

from ackline.errors import StoreError, StoreUnavailable
from ackline.stores.sqlite.transaction import Operation, Transaction

T = TypeVar("T")
Item = TypeVar("Item")

logger = logging.getLogger("ackline")

GROUP_LIMIT = 64
"""The most operations in one commit: more would gain little, and make other processes wait."""

Commit = Callable[[list[Operation[Any]]], list[Any]]
"""Runs operations in one transaction: all of them, or none and an error."""


class Together(Generic[Item, T]):
    """An operation on items, each with an answer: cheaper when done once for all calls of a key."""

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
    """Run the operations of concurrent callers, in any order: none depends on another."""
    if len(operations) == 1:
        return [operations[0](tx)]
    answers: list[Any] = [None] * len(operations)
    shared: dict[Hashable, list[int]] = {}
    for index, operation in enumerate(operations):
        if isinstance(operation, Together):
            shared.setdefault(operation.key, []).append(index)
        else:
            answers[index] = operation(tx)
    for indexes in shared.values():
        alike: list[Any] = [operations[index] for index in indexes]
        together = iter(alike[0].run(tx, [item for call in alike for item in call.items]))
        for index, call in zip(indexes, alike, strict=True):
            answers[index] = [next(together) for _ in call.items]
    return answers


class Undecided(Exception):
    """The commit itself failed: none of the operations may be run again, all get this error."""

    def __init__(self, error: StoreError) -> None:
        super().__init__(str(error))
        self.error = error


class _Waiting(Generic[T]):
    """The operation of a caller that waits: for its answer, or to lead."""

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
                "the thread that wrote it was interrupted, so it may be done or not: send it again"
            )
        return self.answer


class GroupCommit:
    """Lets callers of many threads through, one group at a time."""

    def __init__(self, commit: Commit) -> None:
        self._commit = commit
        self._gate = threading.Lock()
        self._led = False
        self._line: deque[_Waiting[Any]] = deque()

    @property
    def waiting(self) -> int:
        """How many operations wait for the group that is being written."""
        return len(self._line)

    def run(self, operation: Operation[T]) -> T:
        """Run an operation in a transaction, alone or with others; durable once it returns."""
        waiting, leads = None, False
        try:
            with self._gate:
                if self._led:
                    waiting = _Waiting(operation)
                    self._line.append(waiting)
                else:
                    self._led = leads = True
            if waiting is not None:
                return self._wait(waiting)
            answer: T = self._commit([operation])[0]
        except Undecided as undecided:
            raise undecided.error from undecided
        finally:
            if leads:
                self._hand_over()
        return answer

    def _wait(self, waiting: _Waiting[T]) -> T:
        try:
            waiting.woken.acquire()
        except BaseException:
            self._give_up(waiting)
            raise
        if waiting.leads:
            self._lead(waiting)
        return waiting.result()

    def _give_up(self, waiting: _Waiting[Any]) -> None:
        with self._gate:
            if waiting in self._line:
                self._line.remove(waiting)
        if waiting.leads:
            self._hand_over()

    def _lead(self, leader: _Waiting[Any]) -> None:
        group = [leader]
        try:
            with self._gate:
                while self._line and len(group) < GROUP_LIMIT:
                    group.append(self._line.popleft())
            self._run(group)
        finally:
            self._hand_over()
            for waiting in group[1:]:
                waiting.woken.release()

    def _run(self, group: list[_Waiting[Any]]) -> None:
        try:
            answers = self._commit([waiting.operation for waiting in group])
        except apsw.BusyError as error:
            # No operation is at fault, and each alone would wait as long again.
            _refuse(group, error)
        except Undecided as undecided:
            # The operations may be done already.
            _refuse(group, undecided.error)
        except Exception as error:
            if len(group) == 1:
                _refuse(group, error)
                return
            # Each gets a transaction of its own, so that only the failing one gets the error.
            logger.debug("one of %d writes failed: each goes alone", len(group), exc_info=True)
            for waiting in group:
                self._run([waiting])
        else:
            for waiting, answer in zip(group, answers, strict=True):
                waiting.settle(answer)

    def _hand_over(self) -> None:
        with self._gate:
            if self._line:
                leader = self._line.popleft()
                leader.leads = True
                leader.woken.release()
            else:
                self._led = False


def _refuse(group: list[_Waiting[Any]], error: Exception) -> None:
    for waiting in group:
        waiting.refuse(error)
