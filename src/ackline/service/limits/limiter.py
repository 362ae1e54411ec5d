"""All limits of a process: checked before every route, and when jobs are added."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

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
from ackline.service.settings import Settings
from ackline.stores.contract import Store, find_each_job

MAX_WAITING_QUEUES = 50_000
"""How many queue names the requests and streams of a tenant wait for, unless the settings say."""


class Limiter:
    """The limits of tenants and addresses; checking one that is not set costs nothing."""

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
        """Open the ledger that the processes share, or one of its own."""
        self._rates = RateTable(new_file(self._folder))

    def of(self, tenant: str) -> TenantLimits:
        """What a tenant may use."""
        return self._own.get(tenant, self._general)

    def admit_request(self, tenant: str) -> None:
        """Admit one more request of a tenant."""
        if wait := self.count_request(tenant):
            most = self.of(tenant).requests
            raise TooManyRequests(
                f"your tenant may send {most:g} requests a second", "requests", wait
            )

    def count_request(self, tenant: str) -> float:
        """Count one more request of a tenant, or return how many seconds too soon it is."""
        allowance = self.of(tenant)
        rate = _rate(allowance.requests, allowance.requests_burst)
        return 0.0 if rate is None else self._rates.acquire(f"requests {tenant}", rate)

    def admit_jobs(self, tenant: str, jobs: int) -> None:
        """Admit more jobs of a tenant, all or none."""
        allowance = self.of(tenant)
        rate = _rate(allowance.jobs, allowance.jobs_burst)
        if rate is not None and (wait := self._rates.acquire(f"jobs {tenant}", rate, jobs)):
            raise TooManyJobs(
                f"your tenant may enqueue {rate.per_second:g} jobs a second", "jobs", wait
            )

    def has_depth_limit(self, tenant: str) -> bool:
        """Whether a tenant's live jobs are limited: then the store is looked at."""
        allowance = self.of(tenant)
        return bool(allowance.queue_jobs or allowance.tenant_jobs)

    @contextmanager
    def admitting(self, key: QueueKey, jobs: int, ids: Sequence[str] = ()) -> Iterator[None]:
        """Wraps an enqueue, which is refused if it has too many jobs; it may block.

        Jobs whose ids already exist take no room.
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

    def require_capacity(self, queue: QueueKey, steps: Sequence[Transition]) -> None:
        """Refuse steps that would make too many jobs of a queue live; it may block.

        Jobs that are moved count for the queue only: the tenant has them already. The room is not
        reserved until the steps are taken: jobs that have arrived would count twice.
        """
        if not self.has_depth_limit(queue.tenant):
            return
        adding = [step for step in steps if step.act in (Act.REDRIVE, Act.MOVE)]
        found = find_each_job(self._store, queue, [step.id for step in adding])
        more = Counter(map(partial(_queue_that_grows, queue), adding, found))
        del more[None]
        for target, jobs in more.items():
            if target is not None:
                self.reserve_capacity(target, jobs, moved=target != queue)
                self.release_capacity(target, jobs)

    def reserve_capacity(self, key: QueueKey, jobs: int, *, moved: bool = False) -> None:
        """Reserve room for jobs until `leave_room`; it may block."""
        allowance = self.of(key.tenant)
        if moved:
            allowance = msgspec.structs.replace(allowance, tenant_jobs=None)
        if not self._depths.of(key).reserve(key.name, jobs, allowance):
            raise QueueFull(_full_message(key, allowance), "live-jobs")

    def release_capacity(self, key: QueueKey, jobs: int) -> None:
        """End a reservation: the jobs were stored, or refused."""
        self._depths.of(key).confirm(key.name, jobs)

    def acquire_stream_slot(self, tenant: str) -> int | None:
        """A place for one more stream; None where streams are not limited."""
        most = self.of(tenant).streams
        if not most:
            return None
        seat = self._rates.acquire_slot(f"streams {tenant}", most)
        if seat is None:
            raise TooManyStreams(f"your tenant may have {most} streams open at once", "streams")
        return seat

    def count_waiting_queues(self, tenant: str, names: int) -> None:
        """Count queue names to wait for, until `leave_names`: each takes some memory."""
        own = self.of(tenant).waiting_queues
        most = MAX_WAITING_QUEUES if own is None else own
        if most and self._waiting_queues[tenant] + names > most:
            raise TooManyWaitingQueues(
                f"the requests and streams of your tenant may wait for {most:,} queue names in all",
                "waiting-names",
            )
        self._waiting_queues[tenant] += names

    def uncount_waiting_queues(self, tenant: str, names: int) -> None:
        """A request that waited is over."""
        self._waiting_queues[tenant] -= names
        if not self._waiting_queues[tenant]:
            del self._waiting_queues[tenant]

    @contextmanager
    def stream_slot(self, tenant: str) -> Iterator[None]:
        """Wraps a request that waits: it holds as many resources as a stream."""
        seat = self.acquire_stream_slot(tenant)
        try:
            yield
        finally:
            if seat is not None:
                self.release_stream_slot(seat)

    def release_stream_slot(self, seat: int) -> None:
        """Free the place of a stream that has ended."""
        self._rates.release_slot(seat)

    def require_not_blocked(self, address: str) -> None:
        """Refuse an address that has recently failed to authenticate too often."""
        if self._failures is not None:
            wait = self._rates.wait_time(_address_key(address), self._failures)
            if wait:
                raise TooManyLoginFailures(
                    "too many invalid credentials came from your address", "failures", wait
                )

    def record_login_failure(self, address: str) -> None:
        """An address sent invalid credentials."""
        if self._failures is not None:
            self._rates.acquire(_address_key(address), self._failures)

    def close(self) -> None:
        """Close the ledger."""
        self._rates.close()

    def _all_exist(self, key: QueueKey, ids: Sequence[str]) -> bool:
        found = find_each_job(self._store, key, ids)
        return all(job is not None and job.state in STATES_THAT_KEEP_ID for job in found)


def _queue_that_grows(queue: QueueKey, step: Transition, job: Record | None) -> QueueKey | None:
    """The queue that has one more live job after this step, if any has."""
    if job is None or not may_apply(step, job.state):
        return None
    if step.act is Act.REDRIVE:
        return queue
    # The store refuses to move a job to another tenant, whose room is none of the caller's.
    own = step.target is not None and may_move(queue, step.target)
    return step.target if own and job.state in LIVE else None


def _rate(per_second: float | None, burst: float | None) -> Rate | None:
    return Rate(per_second, burst or max(1.0, per_second)) if per_second else None


def _full_message(key: QueueKey, allowance: TenantLimits) -> str:
    limits = []
    if allowance.queue_jobs:
        limits.append(f"{allowance.queue_jobs:,} live jobs in a queue")
    if allowance.tenant_jobs:
        limits.append(f"{allowance.tenant_jobs:,} in all")
    return f"queue {key.name!r} is full for now: your tenant may have {' and '.join(limits)}"


def _address_key(address: str) -> str:
    """The name that an address is counted under; for IPv6 its network, which has one owner."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return f"failures {address}"
    if parsed.version == 6 and parsed.ipv4_mapped is None:
        return f"failures {ipaddress.ip_network((int(parsed), 64), strict=False)}"
    return f"failures {address}"
