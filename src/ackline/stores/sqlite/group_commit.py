"""Group commit: concurrent callers share one transaction, and a lone one pays for no thread.

Who finds nobody writing leads: it runs its own operation, and all that have queued up
meanwhile, in one transaction. So fifty callers pay for one sync of the disk.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import apsw

from ackline.errors import StoreUnavailable
from ackline.stores.sqlite.transaction import Operation

T = TypeVar("T")

GROUP_LIMIT = 64
"""How many operations share one commit: more gains little, and makes other processes wait."""

Commit = Callable[[list[Operation[Any]]], list[Any]]
"""Runs operations in one transaction: all of them, or none and an error."""


class _Ticket(Generic[T]):
    """One operation that waits to be run, and its answer."""

    __slots__ = ("answer", "error", "leads", "operation", "settled", "woken")

    def __init__(self, operation: Operation[T]) -> None:
        self.operation = operation
        self.answer: T
        self.error: BaseException | None = None
        self.settled = False
        self.leads = False
        self.woken = threading.Lock()
        self.woken.acquire()

    def settle(self, answer: T) -> None:
        self.answer = answer
        self.settled = True

    def refuse(self, error: BaseException) -> None:
        if not self.settled:
            self.error = error
            self.settled = True

    def result(self) -> T:
        if self.error is not None:
            raise self.error
        return self.answer


class GroupCommit:
    """Lets callers of many threads through, one group at a time."""

    def __init__(self, commit: Commit) -> None:
        self._commit = commit
        self._gate = threading.Lock()
        self._pending: deque[_Ticket[Any]] = deque()
        self._busy = False

    @property
    def waiting(self) -> int:
        """How many operations wait for the group that is being written."""
        return len(self._pending)

    def run(self, operation: Operation[T]) -> T:
        """Run an operation in a transaction, alone or with others; the answer is durable."""
        ticket = _Ticket(operation)
        with self._gate:
            self._pending.append(ticket)
            ticket.leads = not self._busy
            self._busy = True
        if not ticket.leads:
            self._follow(ticket)
        if ticket.leads:
            self._lead(ticket)
        return ticket.result()

    def _follow(self, ticket: _Ticket[Any]) -> None:
        try:
            ticket.woken.acquire()
        except BaseException:
            # An interrupted caller must not leave the others without a leader.
            with self._gate:
                if not ticket.leads and ticket in self._pending:
                    self._pending.remove(ticket)
            if ticket.leads:
                self._lead(ticket)
            raise

    def _lead(self, leader: _Ticket[Any]) -> None:
        with self._gate:
            group = [self._pending.popleft() for _ in range(min(GROUP_LIMIT, len(self._pending)))]
        try:
            self._run(group)
        except BaseException as error:
            leader.refuse(error)
            for ticket in group:
                ticket.refuse(StoreUnavailable("interrupted while writing: send it again"))
        finally:
            self._hand_over(group)

    def _run(self, group: list[_Ticket[Any]]) -> None:
        if len(group) > 1:
            try:
                self._settle(group)
                return
            except apsw.BusyError as error:
                # Nobody is guilty, and each alone would wait as long again.
                for ticket in group:
                    ticket.refuse(error)
                return
            except Exception:
                # One of them failed: each gets its own transaction, so that only that one fails.
                pass
        for ticket in group:
            try:
                self._settle([ticket])
            except Exception as error:
                ticket.refuse(error)

    def _settle(self, group: list[_Ticket[Any]]) -> None:
        answers = self._commit([ticket.operation for ticket in group])
        for ticket, answer in zip(group, answers, strict=True):
            ticket.settle(answer)

    def _hand_over(self, group: list[_Ticket[Any]]) -> None:
        with self._gate:
            if self._pending:
                self._pending[0].leads = True
                self._pending[0].woken.release()
            else:
                self._busy = False
        for ticket in group:
            if not ticket.leads:
                ticket.woken.release()
