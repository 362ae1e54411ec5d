"""Consuming: handlers that a worker runs, and manual claims."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar, overload

import msgspec

from ackline.core import lifecycle
from ackline.core.config import suggestion_for
from ackline.core.cron import CatchUp, Every, Schedule
from ackline.core.errors import TRANSIENT_ERRORS, CannotJoin, ConfigError, StoreError
from ackline.core.events import RecoveredBy
from ackline.core.ids import new_id
from ackline.core.job import Record, State
from ackline.core.lifecycle import Transition, Verdict
from ackline.core.limits import (
    Seconds,
    as_names,
    as_seconds,
    require_lease,
    require_name,
    require_number,
    some_seconds,
)
from ackline.core.retry import BackoffLike
from ackline.queue.base import P, R
from ackline.queue.handlers import DEFAULT_KIND, handler_policy
from ackline.queue.job import Job
from ackline.queue.job_log import log_expired
from ackline.queue.settle import Settler
from ackline.queue.transactions import joined_store
from ackline.stores.contract import ClaimRequest, ClaimResult, JoinedTransaction

logger = logging.getLogger("ackline")

F = TypeVar("F", bound=Callable[..., Any])

MAX_POLL_INTERVAL = 1.0
"""Notifications can be lost, so a waiting claim polls after this many seconds."""


def new_worker_id() -> str:
    """A unique name for a worker of this process."""
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
        backoff: BackoffLike | None = None,
        lease: Seconds | None = None,
        timeout: Seconds | None = None,
        result_ttl: Seconds | None = None,
    ) -> Callable[[F], F]: ...

    def handler(self, kind: Any = DEFAULT_KIND, /, **options: Any) -> Any:
        """Register the function that runs a kind of job; it may be async.

        >>> @queue.handler("welcome", max_attempts=5, backoff=[1, 5, 30])  # doctest: +SKIP
        ... def welcome(job): ...
        """
        if callable(kind):
            return self.handler(**options)(kind)
        names = ("max_attempts", "backoff", "lease", "timeout", "result_ttl")
        policy = handler_policy(**{name: options.pop(name, None) for name in names})
        if options:
            raise TypeError(
                f"unknown handler option: "
                f"{', '.join(sorted(options))}{suggestion_for(options, names)}"
            )
        require_name("kind", kind)

        def register(function: F) -> F:
            self.handlers.add(kind, function, policy)
            return function

        return register

    def every(
        self,
        when: Every,
        payload: Any = None,
        *,
        name: str | None = None,
        kind: str = DEFAULT_KIND,
        tz: str = "UTC",
        catch_up: CatchUp = "one",
        **options: Any,
    ) -> Schedule:
        """Enqueue a job at each tick of a schedule, by whichever worker runs.

        It ticks by a cron expression, by `@hourly`, `@daily`, `@weekly`, `@monthly` or `@yearly`,
        or each time that a `timedelta` of whole seconds has passed. The queue's workers share it:
        there is one job per tick. It is named after its kind unless you give a name.

        >>> queue.every("0 3 * * *", {"of": "yesterday"}, kind="report")  # doctest: +SKIP
        """
        schedule = Schedule(name or kind, when, kind, payload, tz, catch_up, options)
        if any(schedule.name == other.name for other in self.schedules):
            raise ConfigError(
                f"queue {self.key} already has a schedule named {schedule.name!r}: pass name=…"
            )
        # A job that could not be enqueued is rejected now, not at the first tick.
        self.draft_builder.draft(payload, {"kind": kind, **options})  # type: ignore[typeddict-item]
        self.schedules.append(schedule)
        return schedule

    def claim(
        self,
        limit: int = 1,
        *,
        lease: Seconds | None = None,
        wait: Seconds = 0.0,
        kinds: Iterable[str] | None = None,
        worker: str | None = None,
        connection: object | None = None,
    ) -> list[Job[P]]:
        """Lease up to `limit` jobs, waiting up to `wait` seconds for the first.

        With a `connection`, in the transaction that you have open on it: settle the jobs there,
        too. Until then nobody else gets them, and a rollback or a crash puts them back at once.

        >>> for job in queue.claim(10, lease=30, wait=5):  # doctest: +SKIP
        ...     queue.complete(job, do(job.payload))
        """
        seconds = some_seconds("wait", wait)
        request = self.claim_request(limit, lease, kinds, worker)
        claimed = self.claim_records(request, connection=connection)
        if not claimed.jobs and seconds > 0:
            claimed = self._claim_and_wait(request, seconds, connection)
        return [self.wrap(record) for record in claimed.jobs]

    def claim_request(
        self, limit: int, lease: Seconds | None, kinds: Iterable[str] | None, worker: str | None
    ) -> ClaimRequest:
        """Validate the arguments of a claim, and fill in defaults."""
        require_number("limit", limit, 0)
        seconds = as_seconds(lease)
        require_lease(seconds)
        if worker is not None:
            require_name("worker", worker)
        settings = self.policies.settings()
        lease_of_kind = {
            kind: policy.lease for kind, policy in settings.kinds.items() if policy.lease
        }
        return ClaimRequest(
            worker=worker or new_worker_id(),
            limit=limit,
            lease=seconds or settings.policy.lease or self.policies.defaults.lease,
            kinds=as_names(kinds),
            lease_of_kind=lease_of_kind if seconds is None else {},
        )

    def claim_records(
        self,
        request: ClaimRequest,
        transitions: Sequence[Transition] = (),
        connection: object | None = None,
    ) -> ClaimResult:
        """Claim, and expire the leases that the claim found past their deadline."""
        with joined_store(self.store, connection) as store:
            return self.claim_from(store, request, transitions)

    def claim_from(
        self,
        store: JoinedTransaction,
        request: ClaimRequest,
        transitions: Sequence[Transition] = (),
    ) -> ClaimResult:
        """Claim from the store, or in a transaction that it has joined."""
        claimed = store.claim(self.key, request, transitions)
        if not claimed.lapsed:
            return claimed
        try:
            if not self.policies.settings().recovery:
                return msgspec.structs.replace(claimed, lapsed=[])
            verdicts = self._expire_leases(claimed.lapsed, "lease expired", RecoveredBy.CLAIM)
            if claimed.jobs:
                return claimed
            second = store.claim(self.key, request)
        except CannotJoin:
            # This transaction cannot claim the recovered jobs, and has claimed no others.
            raise
        except Exception:
            # The caller must still get the jobs that it claimed: they are leased to it.
            logger.warning(
                "could not expire leases of %s; the next claim or sweep will try again",
                self.key,
                exc_info=True,
            )
            return claimed
        # More leases may have lapsed than one claim reports, so claim again at once; but not if
        # none could be expired, or idle workers would retry without a delay.
        claim_now = second.lapsed and any(verdict.applied for verdict in verdicts)
        return ClaimResult(
            jobs=second.jobs,
            verdicts=claimed.verdicts,
            next_at=second.now if claim_now else second.next_at,
            now=second.now,
            may_have_more=second.may_have_more,
        )

    def _claim_and_wait(
        self, request: ClaimRequest, wait: float, connection: object | None
    ) -> ClaimResult:
        until = time.monotonic() + wait
        with self.store.listen([self.key], "ready", request.kinds) as listener:
            while True:
                claimed = self.claim_records(request, connection=connection)
                left = until - time.monotonic()
                if claimed.jobs or left <= 0:
                    return claimed
                listener.wait(min(left, poll_interval(claimed)))

    def expire(
        self,
        leases: Sequence[Record],
        reason: str = "lease expired",
        recovered_by: RecoveredBy = RecoveredBy.MANUAL,
    ) -> list[Verdict]:
        """Expire leases, unless they were settled or extended since they were read."""
        verdicts = self._expire_leases(leases, reason, recovered_by)
        self.recoveries.save()
        return verdicts

    def _expire_leases(
        self, leases: Sequence[Record], reason: str, recovered_by: RecoveredBy
    ) -> list[Verdict]:
        transitions = [
            lifecycle.expire(job, self.policies.of(job), reason, recovered_by) for job in leases
        ]
        try:
            verdicts = self.apply(transitions)
        except TRANSIENT_ERRORS:
            raise
        except StoreError:
            # The store may reject a single transition: it must not block the others.
            verdicts = [self._expire_alone(transition) for transition in transitions]
        self.recoveries.add(recovered_by, verdicts)
        log_expired(self.key, leases, transitions, verdicts, self.policies)
        return verdicts

    def _expire_alone(self, transition: Transition) -> Verdict:
        try:
            return self.apply([transition])[0]
        except TRANSIENT_ERRORS:
            raise
        except StoreError as error:
            logger.error(
                "cannot expire the lease of job %r of %s: %s",
                transition.id,
                self.key,
                error,
            )
            return Verdict(False, State.PROCESSING)


def poll_interval(claimed: ClaimResult) -> float:
    """How many seconds to wait for a notification after an empty claim."""
    if claimed.next_at is None:
        return MAX_POLL_INTERVAL
    return min(MAX_POLL_INTERVAL, max(0.001, claimed.next_at - claimed.now))
