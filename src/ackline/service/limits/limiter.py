"""All limits of a process: checked before every route, and when jobs are added."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ackline.core.events import Act
from ackline.core.job import LIVE, QueueKey, Record
from ackline.core.lifecycle import STATES_THAT_KEEP_ID, Transition, may_apply, may_move
from ackline.service.limits.errors import (
    QueueFull,
    TooManyJobs,
    TooManyLoginFailures,
    TooManyRequests,
    TooManyStreams,
    TooManyWaitingQueues,
)
from ackline.service.limits.queue_depth import DepthTracker
from ackline.service.limits.rate_limit import Rate, RateTable, new_file
from ackline.service.limits.tenant_limits import TenantLimits
from ackline.stores.contract import Store, find_each_job

if TYPE_CHECKING:
    from ackline.service.settings import Settings

MAX_WAITING_QUEUES = 50_000
"""Maximum number of queues that a tenant's requests and streams wait for, by default."""


class Limiter:
    """The limits of tenants and addresses; a limit that is not set costs nothing."""

    def __init__(self, settings: Settings, store: Store, folder: Path | None = None) -> None:
        self._folder = folder
        self._store = store
        self._rates: RateTable
        self._depths = DepthTracker(store)
        self._waiting_queues: Counter[str] = Counter()
        self._failures = _rate(settings.login_failures / 60, settings.login_failures)
        self._general = settings.limits
        self._own = {
            name: own.with_defaults(self._general) for name, own in settings.tenants.items()
        }

    def open(self) -> None:
        """Open the table of rates that the processes share, or one of its own."""
        self._rates = RateTable(new_file(self._folder))

    def of(self, tenant: str) -> TenantLimits:
        """The limits of a tenant."""
        return self._own.get(tenant, self._general)

    def admit_request(self, tenant: str) -> None:
        """Admit one more request of a tenant."""
        if wait := self.count_request(tenant):
            rate = self.of(tenant).requests
            raise TooManyRequests(
                f"your tenant may send {rate:g} requests per second", "requests", wait
            )

    def count_request(self, tenant: str) -> float:
        """Count one more request of a tenant, or return the seconds to wait for the rate."""
        limits = self.of(tenant)
        rate = _rate(limits.requests, limits.requests_burst)
        return 0.0 if rate is None else self._rates.acquire(f"requests {tenant}", rate)

    def admit_jobs(self, tenant: str, jobs: int) -> None:
        """Admit more jobs of a tenant, all or none."""
        limits = self.of(tenant)
        rate = _rate(limits.jobs, limits.jobs_burst)
        if rate is not None and (wait := self._rates.acquire(f"jobs {tenant}", rate, jobs)):
            raise TooManyJobs(
                f"your tenant may enqueue {rate.per_second:g} jobs per second", "jobs", wait
            )

    def has_depth_limit(self, tenant: str) -> bool:
        """Whether a tenant's live jobs are limited, so that the store must be asked."""
        limits = self.of(tenant)
        return bool(limits.queue_jobs or limits.tenant_jobs)

    @contextmanager
    def admitting(self, key: QueueKey, jobs: int, ids: Sequence[str] = ()) -> Iterator[None]:
        """Wraps an enqueue, which is refused if it has too many jobs. May block.

        Jobs whose ids already exist need no capacity.
        """
        self.admit_jobs(key.tenant, jobs)
        if not jobs or not self.has_depth_limit(key.tenant):
            yield
            return
        try:
            self.reserve_capacity(key, jobs)
        except QueueFull:
            if len(ids) < jobs or not self._all_exist(key, ids):
                raise
            yield
            return
        try:
            yield
        finally:
            self.release_capacity(key, jobs)

    def require_capacity(self, queue: QueueKey, transitions: Sequence[Transition]) -> None:
        """Refuse transitions that would make too many jobs of a queue live. May block.

        Moved jobs only count for the queue: the tenant has them already. The capacity is not kept
        reserved until the transitions are applied, or else those jobs would count twice.
        """
        if not self.has_depth_limit(queue.tenant):
            return
        adding = [
            transition for transition in transitions if transition.act in (Act.REDRIVE, Act.MOVE)
        ]
        found = find_each_job(self._store, queue, [transition.id for transition in adding])
        added = Counter(map(partial(_growing_queue, queue), adding, found))
        del added[None]
        for target, jobs in added.items():
            if target is not None:
                self.reserve_capacity(target, jobs, moved=target != queue)
                self.release_capacity(target, jobs)

    def reserve_capacity(self, key: QueueKey, jobs: int, *, moved: bool = False) -> None:
        """Reserve capacity for jobs until `release_capacity`. May block."""
        limits = self.of(key.tenant)
        if moved:
            limits = msgspec.structs.replace(limits, tenant_jobs=None)
        if not self._depths.of(key).reserve(key.name, jobs, limits):
            raise QueueFull(_full_message(key, limits), "live-jobs")

    def release_capacity(self, key: QueueKey, jobs: int) -> None:
        """End a reservation: the jobs were stored, or refused."""
        self._depths.of(key).confirm(key.name, jobs)

    def acquire_stream_slot(self, tenant: str) -> int | None:
        """A slot for one more stream; None where streams are not limited."""
        maximum = self.of(tenant).streams
        if not maximum:
            return None
        slot = self._rates.acquire_slot(f"streams {tenant}", maximum)
        if slot is None:
            raise TooManyStreams(f"your tenant may have {maximum} open streams", "streams")
        return slot

    def count_waiting_queues(self, tenant: str, queues: int) -> None:
        """Count queues to wait for, until `release_waiting_queues`: each takes some memory."""
        own = self.of(tenant).waiting_queues
        limit = MAX_WAITING_QUEUES if own is None else own
        if limit and self._waiting_queues[tenant] + queues > limit:
            raise TooManyWaitingQueues(
                f"the requests and streams of your tenant may wait for {limit:,} queues in all",
                "waiting-queues",
            )
        self._waiting_queues[tenant] += queues

    def release_waiting_queues(self, tenant: str, queues: int) -> None:
        """Stop counting the queues of a request that has ended."""
        self._waiting_queues[tenant] -= queues
        if not self._waiting_queues[tenant]:
            del self._waiting_queues[tenant]

    @contextmanager
    def stream_slot(self, tenant: str) -> Iterator[None]:
        """Wraps a long poll, which takes a stream slot: it needs as much memory as a stream."""
        slot = self.acquire_stream_slot(tenant)
        try:
            yield
        finally:
            if slot is not None:
                self.release_stream_slot(slot)

    def release_stream_slot(self, slot: int) -> None:
        """Release the slot of a stream that has ended."""
        self._rates.release_slot(slot)

    def require_not_blocked(self, address: str) -> None:
        """Refuse an address that has recently failed to authenticate too often."""
        if self._failures is not None:
            wait = self._rates.wait_time(_address_key(address), self._failures)
            if wait:
                raise TooManyLoginFailures(
                    "too many invalid credentials came from your address", "failures", wait
                )

    def record_login_failure(self, address: str) -> None:
        """Count invalid credentials from an address."""
        if self._failures is not None:
            self._rates.acquire(_address_key(address), self._failures)

    def close(self) -> None:
        """Close the table of rates."""
        self._rates.close()

    def _all_exist(self, key: QueueKey, ids: Sequence[str]) -> bool:
        found = find_each_job(self._store, key, ids)
        return all(job is not None and job.state in STATES_THAT_KEEP_ID for job in found)


def _growing_queue(queue: QueueKey, transition: Transition, job: Record | None) -> QueueKey | None:
    """The queue that gets one more live job by this transition, if any."""
    if job is None or not may_apply(transition, job.state):
        return None
    if transition.act is Act.REDRIVE:
        return queue
    # The store refuses to move a job to another tenant, whose capacity does not concern the caller.
    own = transition.target is not None and may_move(queue, transition.target)
    return transition.target if own and job.state in LIVE else None


def _rate(per_second: float | None, burst: float | None) -> Rate | None:
    return Rate(per_second, burst or max(1.0, per_second)) if per_second else None


def _full_message(key: QueueKey, limits: TenantLimits) -> str:
    texts = []
    if limits.queue_jobs:
        texts.append(f"{limits.queue_jobs:,} live jobs per queue")
    if limits.tenant_jobs:
        texts.append(f"{limits.tenant_jobs:,} live jobs per tenant")
    return f"queue {key.name!r} is full: the limit is {' and '.join(texts)}"


def _address_key(address: str) -> str:
    """The name of an address in the table of rates; for IPv6 that of its /64 network."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return f"failures {address}"
    if parsed.version == 6 and parsed.ipv4_mapped is None:
        return f"failures {ipaddress.ip_network((int(parsed), 64), strict=False)}"
    return f"failures {address}"
