"""Group commit: concurrent callers share one transaction, and a lone caller needs no extra thread.

A caller that finds nobody writing becomes the leader: it runs its own operation and all that have
queued up meanwhile in one transaction. So fifty callers pay for one sync of the disk.

An interrupt may end a caller at any moment, also while it leads. So nobody relies on a leader to
hand over: every waiting caller checks now and then whether its leader is still there.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import apsw

from ackline.errors import StoreError, StoreUnavailable
from ackline.stores.sqlite.transaction import Operation

T = TypeVar("T")

logger = logging.getLogger("ackline")

GROUP_LIMIT = 64
"""The most operations in one commit: more would gain little, and make other processes wait."""

LOOK_EVERY = 0.5
"""Seconds after which a waiting caller checks whether its leader was interrupted."""

Commit = Callable[[list[Operation[Any]]], list[Any]]
"""Runs operations in one transaction: all of them, or none and an error."""


class Undecided(Exception):
    """The commit itself failed: none of the operations may be run again, all get this error."""

    def __init__(self, error: StoreError) -> None:
        super().__init__(str(error))
        self.error = error


class _Ticket(Generic[T]):
    """One operation that waits to be run, and its answer."""

    __slots__ = ("answer", "error", "inside", "leader", "leads", "operation", "settled", "woken")

    def __init__(self, operation: Operation[T]) -> None:
        self.operation = operation
        self.answer: T
        self.error: BaseException | None = None
        self.settled = False
        self.inside = True
        """Whether its caller still waits for the answer."""
        self.leads = False
        self.leader: _Ticket[Any] | None = None
        """The leader that has taken it into its group."""
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
        self._leader: _Ticket[Any] | None = None

    @property
    def waiting(self) -> int:
        """How many operations wait for the group that is being written."""
        return len(self._pending)

    def run(self, operation: Operation[T]) -> T:
        """Run an operation in a transaction, alone or with others; durable once it returns."""
        ticket = _Ticket(operation)
        try:
            with self._gate:
                self._pending.append(ticket)
                self._lead_if_nobody_does(ticket)
            if not ticket.leads:
                self._follow(ticket)
            if ticket.leads:
                self._lead(ticket)
            return ticket.result()
        finally:
            # A plain assignment, no call: an interrupt cannot come in between.
            ticket.inside = False

    def _lead_if_nobody_does(self, ticket: _Ticket[Any]) -> None:
        if self._leader is None or self._leader is ticket or not self._leader.inside:
            self._leader = ticket
            ticket.leads = True

    def _follow(self, ticket: _Ticket[Any]) -> None:
        while not ticket.woken.acquire(timeout=LOOK_EVERY):
            with self._gate:
                if ticket in self._pending:
                    self._lead_if_nobody_does(ticket)
                elif ticket.leader is not None and not ticket.leader.inside:
                    ticket.refuse(_interrupted())
                if ticket.leads or ticket.settled:
                    return

    def _lead(self, leader: _Ticket[Any]) -> None:
        group: list[_Ticket[Any]] = []
        try:
            with self._gate:
                self._gather(leader, group)
            self._run(group)
        except BaseException:
            for ticket in group:
                ticket.refuse(_interrupted())
            raise
        finally:
            self._hand_over(leader, group)

    def _gather(self, leader: _Ticket[Any], group: list[_Ticket[Any]]) -> None:
        # The leader is in line itself, but maybe not first: it may have replaced a lost leader.
        self._pending.remove(leader)
        group.append(leader)
        while self._pending and len(group) < GROUP_LIMIT:
            ticket = self._pending[0]
            ticket.leader = leader
            self._pending.popleft()
            if ticket.inside:
                group.append(ticket)

    def _run(self, group: list[_Ticket[Any]]) -> None:
        if len(group) > 1 and self._run_together(group):
            return
        for ticket in group:
            try:
                self._settle([ticket])
            except Exception as error:
                _refuse([ticket], error)

    def _run_together(self, group: list[_Ticket[Any]]) -> bool:
        """Run all in one transaction; False if one failed and so nothing was written."""
        try:
            self._settle(group)
        except (apsw.BusyError, Undecided) as error:
            # Busy: no operation is at fault, and each alone would wait as long again.
            # Undecided: the operations may be done already.
            _refuse(group, error)
        except Exception:
            # Each gets a transaction of its own, so that only the failing one gets the error.
            logger.debug("one of %d writes failed: each goes alone", len(group), exc_info=True)
            return False
        return True

    def _settle(self, group: list[_Ticket[Any]]) -> None:
        answers = self._commit([ticket.operation for ticket in group])
        for ticket, answer in zip(group, answers, strict=True):
            ticket.settle(answer)

    def _hand_over(self, leader: _Ticket[Any], group: list[_Ticket[Any]]) -> None:
        with self._gate:
            while self._pending and not self._pending[0].inside:
                self._pending.popleft()
            self._leader = self._pending[0] if self._pending else None
            if self._leader is not None:
                self._leader.leads = True
                self._leader.woken.release()
        for ticket in group:
            if ticket is not leader:
                ticket.woken.release()


def _refuse(group: list[_Ticket[Any]], error: Exception) -> None:
    for ticket in group:
        ticket.refuse(error.error if isinstance(error, Undecided) else error)


def _interrupted() -> StoreUnavailable:
    return StoreUnavailable("interrupted while writing, so it may be done or not: send it again")
