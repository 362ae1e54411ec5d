"""Taking jobs out of a queue: by handlers for a worker, or claimed by hand."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar, overload

import msgspec

from ackline import lifecycle
from ackline.config import hint_for
from ackline.cron import CatchUp, Schedule
from ackline.errors import PASSING, CannotJoin, ConfigError, StoreError
from ackline.ids import new_id
from ackline.job import Record, State
from ackline.lifecycle import Transition, Verdict
from ackline.limits import (
    names_in,
    require_given_seconds,
    require_lease,
    require_name,
    require_number,
)
from ackline.queue.base import P, R
from ackline.queue.handlers import DEFAULT_KIND, policy_from
from ackline.queue.job import Job
from ackline.queue.joining import within
from ackline.queue.recovery import Way
from ackline.queue.settler import Settler
from ackline.retry import Backoff
from ackline.stores.base import Claimed, ClaimRequest, Joined

logger = logging.getLogger("ackline")

F = TypeVar("F", bound=Callable[..., Any])

LONGEST_POLL = 1.0
"""Notifications can be lost, so a waiting claim looks again after this many seconds."""


def worker_id() -> str:
    """A name for this process that no earlier or later one ever has."""
    return f"{socket.gethostname()}-{os.getpid()}-{new_id()[-12:]}"


class Consumer(Settler[P, R]):
    """The consuming side of a queue."""

    @overload
    def handler(self, kind: F, /) -> F: ...

    @overload
    def handler(
        self,
        kind: str = DEFAULT_KIND,
        /,
        *,
        max_attempts: int | None = None,
        backoff: Backoff | Sequence[float] | float | None = None,
        lease: float | None = None,
        timeout: float | None = None,
        result_ttl: float | None = None,
    ) -> Callable[[F], F]: ...

    def handler(self, kind: Any = DEFAULT_KIND, /, **options: Any) -> Any:
        """Register the function that runs a kind of job; it may be async.

        >>> @queue.handler("welcome", max_attempts=5, backoff=[1, 5, 30])  # doctest: +SKIP
        ... def welcome(job): ...
        """
        if callable(kind):
            return self.handler(**options)(kind)
        names = ("max_attempts", "backoff", "lease", "timeout", "result_ttl")
        policy = policy_from(**{name: options.pop(name, None) for name in names})
        if options:
            raise TypeError(
                f"unknown handler option: {', '.join(sorted(options))}{hint_for(options, names)}"
            )
        require_name("kind", kind)

        def register(function: F) -> F:
            self.handlers.add(kind, function, policy)
            return function

        return register

    def every(
        self,
        cron: str,
        payload: Any = None,
        *,
        name: str | None = None,
        kind: str = DEFAULT_KIND,
        timezone: str = "UTC",
        catch_up: CatchUp = "one",
        **options: Any,
    ) -> Schedule:
        """Have a job enqueued at each tick of a cron expression, by whichever worker runs.

        The queue's workers share the schedule: there is one job per tick. It is named after its
        kind unless you give a name.

        >>> queue.every("0 3 * * *", {"of": "yesterday"}, kind="report")  # doctest: +SKIP
        """
        schedule = Schedule(name or kind, cron, kind, payload, timezone, catch_up, options)
        if any(schedule.name == other.name for other in self.schedules):
            raise ConfigError(
                f"queue {self.key} already has a schedule named {schedule.name!r}: pass name=…"
            )
        # A job that could not be enqueued is refused now, not at the first tick.
        self.drafter.draft(payload, {"kind": kind, **options})  # type: ignore[typeddict-item]
        self.schedules.append(schedule)
        return schedule

    def claim(
        self,
        limit: int = 1,
        *,
        lease: float | None = None,
        wait: float = 0.0,
        kinds: Iterable[str] | None = None,
        worker: str | None = None,
        connection: object | None = None,
    ) -> list[Job[P]]:
        """Lease up to `limit` jobs, waiting up to `wait` seconds for the first.

        With a `connection`, in the transaction that you have open on it: settle the jobs there,
        too. Nobody else gets them meanwhile, and a rollback or a crash puts them back at once.

        >>> for job in queue.claim(10, lease=30, wait=5):  # doctest: +SKIP
        ...     queue.complete(job, do(job.payload))
        """
        require_given_seconds("wait", wait)
        request = self.claim_request(limit, lease, kinds, worker)
        claimed = self.claim_records(request, connection=connection)
        if not claimed.jobs and wait > 0:
            claimed = self._claim_waiting(request, wait, connection)
        return [self.wrap(record) for record in claimed.jobs]

    def claim_request(
        self, limit: int, lease: float | None, kinds: Iterable[str] | None, worker: str | None
    ) -> ClaimRequest:
        """Check what a caller asks for, and fill in what it left out."""
        require_number("limit", limit, 0)
        require_lease(lease)
        if worker is not None:
            require_name("worker", worker)
        settings = self.policies.settings()
        own = {kind: policy.lease for kind, policy in settings.kinds.items() if policy.lease}
        return ClaimRequest(
            worker=worker or worker_id(),
            limit=limit,
            lease=lease or settings.policy.lease or self.policies.defaults.lease,
            kinds=names_in(kinds),
            lease_of_kind=own if lease is None else {},
        )

    def claim_records(
        self,
        request: ClaimRequest,
        transitions: Sequence[Transition] = (),
        connection: object | None = None,
    ) -> Claimed:
        """Claim, and take back the lapsed leases that the claim came across."""
        with within(self.store, connection) as store:
            return self.claim_from(store, request, transitions)

    def claim_from(
        self, store: Joined, request: ClaimRequest, transitions: Sequence[Transition] = ()
    ) -> Claimed:
        """Claim from the store, or within a transaction that it has joined."""
        claimed = store.claim(self.key, request, transitions)
        if not claimed.lapsed:
            return claimed
        try:
            if not self.policies.settings().recovery:
                return msgspec.structs.replace(claimed, lapsed=[])
            taken_back = self._take_back(claimed.lapsed, "lease expired", Way.CLAIM)
            if claimed.jobs:
                return claimed
            again = store.claim(self.key, request)
        except CannotJoin:
            # The jobs just taken back cannot be claimed in this transaction; no others were.
            raise
        except Exception:
            # The caller must still get the jobs that it claimed: they are leased to it.
            logger.warning(
                "lapsed leases of %s could not be taken back; the next look tries again",
                self.key,
                exc_info=True,
            )
            return claimed
        # More leases may have lapsed than one claim reports, so look again at once; but not if
        # none could be taken back, or idle workers would try without a pause.
        at_once = again.lapsed and any(verdict.applied for verdict in taken_back)
        return Claimed(
            jobs=again.jobs,
            verdicts=claimed.verdicts,
            next_at=again.now if at_once else again.next_at,
            now=again.now,
            more=again.more,
        )

    def _claim_waiting(
        self, request: ClaimRequest, wait: float, connection: object | None
    ) -> Claimed:
        until = time.monotonic() + wait
        with self.store.listen([self.key], "ready", request.kinds) as listener:
            while True:
                claimed = self.claim_records(request, connection=connection)
                left = until - time.monotonic()
                if claimed.jobs or left <= 0:
                    return claimed
                listener.wait(min(left, time_to_next(claimed)))

    def expire(
        self, leases: Sequence[Record], reason: str = "lease expired", way: Way = Way.HAND
    ) -> list[Verdict]:
        """Take leases back, unless they were settled or extended since they were seen."""
        verdicts = self._take_back(leases, reason, way)
        self.recoveries.save()
        return verdicts

    def _take_back(self, leases: Sequence[Record], reason: str, way: Way) -> list[Verdict]:
        steps = [lifecycle.expire(job, self.policies.of(job), reason) for job in leases]
        try:
            verdicts = self.apply(steps)
        except PASSING:
            raise
        except StoreError:
            # The store may refuse a single step: it must not hold up the others.
            verdicts = [self._expire_alone(step) for step in steps]
        self.recoveries.note(way, verdicts)
        return verdicts

    def _expire_alone(self, step: Transition) -> Verdict:
        try:
            return self.apply([step])[0]
        except PASSING:
            raise
        except StoreError as error:
            logger.error(
                "the lapsed lease of job %r of %s cannot be taken back: %s",
                step.id,
                self.key,
                error,
            )
            return Verdict(False, State.PROCESSING)


def time_to_next(claimed: Claimed) -> float:
    """How many seconds to wait for a notification after an empty claim."""
    if claimed.next_at is None:
        return LONGEST_POLL
    return min(LONGEST_POLL, max(0.001, claimed.next_at - claimed.now))
