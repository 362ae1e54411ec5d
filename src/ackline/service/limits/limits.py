"""All limits of a process: checked before every route, and when jobs are added."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgspec

from ackline.events import Act
from ackline.job import LIVE, QueueKey, Record
from ackline.lifecycle import KEEPS_ID, Transition, may_move, may_start
from ackline.service.allowance import Allowance
from ackline.service.limits.depth import Depths
from ackline.service.limits.ledger import Ledger, new_file
from ackline.service.limits.rate import Rate
from ackline.service.limits.refusals import (
    QueueFull,
    TooManyFailures,
    TooManyJobs,
    TooManyNames,
    TooManyRequests,
    TooManyStreams,
)
from ackline.service.settings import Settings
from ackline.stores.base import Store, find_each

MOST_WAITING_NAMES = 50_000
"""How many queue names the requests and streams of a tenant wait for, unless the settings say."""


class Limits:
    """The limits of tenants and addresses; checking one that is not set costs nothing."""

    def __init__(self, settings: Settings, store: Store, folder: Path | None = None) -> None:
        self._folder = folder
        self._store = store
        self._ledger: Ledger
        self._depths = Depths(store)
        self._waiting_names: Counter[str] = Counter()
        self._failures = _rate(settings.login_failures / 60, settings.login_failures)
        self._general = settings.limits
        self._own = {name: own.over(self._general) for name, own in settings.tenants.items()}

    def open(self) -> None:
        """Open the ledger that the processes share, or one of its own."""
        self._ledger = Ledger(new_file(self._folder))

    def of(self, tenant: str) -> Allowance:
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
        return 0.0 if rate is None else self._ledger.charge(f"requests {tenant}", rate)

    def admit_jobs(self, tenant: str, jobs: int) -> None:
        """Admit more jobs of a tenant, all or none."""
        allowance = self.of(tenant)
        rate = _rate(allowance.jobs, allowance.jobs_burst)
        if rate is not None and (wait := self._ledger.charge(f"jobs {tenant}", rate, jobs)):
            raise TooManyJobs(
                f"your tenant may enqueue {rate.per_second:g} jobs a second", "jobs", wait
            )

    def counts_jobs_of(self, tenant: str) -> bool:
        """Whether a tenant's live jobs are limited: then the store is looked at."""
        allowance = self.of(tenant)
        return bool(allowance.queue_jobs or allowance.tenant_jobs)

    @contextmanager
    def admitting(self, key: QueueKey, jobs: int, ids: Sequence[str] = ()) -> Iterator[None]:
        """Wraps an enqueue, which is refused if it has too many jobs; it may block.

        Jobs whose ids already exist take no room.
        """
        self.admit_jobs(key.tenant, jobs)
        if not jobs or not self.counts_jobs_of(key.tenant):
            yield
            return
        try:
            self.take_room(key, jobs)
        except QueueFull:
            if len(ids) < jobs or not self._all_exist(key, ids):
                raise
            yield
            return
        try:
            yield
        finally:
            self.leave_room(key, jobs)

    def require_room(self, queue: QueueKey, steps: Sequence[Transition]) -> None:
        """Refuse steps that would make too many jobs of a queue live; it may block.

        Jobs that are moved count for the queue only: the tenant has them already. The room is not
        reserved until the steps are taken: jobs that have arrived would count twice.
        """
        if not self.counts_jobs_of(queue.tenant):
            return
        adding = [step for step in steps if step.act in (Act.REDRIVE, Act.MOVE)]
        found = find_each(self._store, queue, [step.id for step in adding])
        more = Counter(map(partial(_grown, queue), adding, found))
        del more[None]
        for target, jobs in more.items():
            if target is not None:
                self.take_room(target, jobs, moved=target != queue)
                self.leave_room(target, jobs)

    def take_room(self, key: QueueKey, jobs: int, *, moved: bool = False) -> None:
        """Reserve room for jobs until `leave_room`; it may block."""
        allowance = self.of(key.tenant)
        if moved:
            allowance = msgspec.structs.replace(allowance, tenant_jobs=None)
        if not self._depths.of(key).take(key.name, jobs, allowance):
            raise QueueFull(_full(key, allowance), "live-jobs")

    def leave_room(self, key: QueueKey, jobs: int) -> None:
        """End a reservation: the jobs were stored, or refused."""
        self._depths.of(key).arrived(key.name, jobs)

    def take_seat(self, tenant: str) -> int | None:
        """A place for one more stream; None where streams are not limited."""
        most = self.of(tenant).streams
        if not most:
            return None
        seat = self._ledger.take_seat(f"streams {tenant}", most)
        if seat is None:
            raise TooManyStreams(f"your tenant may have {most} streams open at once", "streams")
        return seat

    def take_names(self, tenant: str, names: int) -> None:
        """Count queue names to wait for, until `leave_names`: each takes some memory."""
        own = self.of(tenant).waiting_names
        most = MOST_WAITING_NAMES if own is None else own
        if most and self._waiting_names[tenant] + names > most:
            raise TooManyNames(
                f"the requests and streams of your tenant may wait for {most:,} queue names in all",
                "waiting-names",
            )
        self._waiting_names[tenant] += names

    def leave_names(self, tenant: str, names: int) -> None:
        """A request that waited is over."""
        self._waiting_names[tenant] -= names
        if not self._waiting_names[tenant]:
            del self._waiting_names[tenant]

    @contextmanager
    def seated(self, tenant: str) -> Iterator[None]:
        """Wraps a request that waits: it holds as many resources as a stream."""
        seat = self.take_seat(tenant)
        try:
            yield
        finally:
            if seat is not None:
                self.leave_seat(seat)

    def leave_seat(self, seat: int) -> None:
        """Free the place of a stream that has ended."""
        self._ledger.leave_seat(seat)

    def require_trust(self, address: str) -> None:
        """Refuse an address that has recently failed to authenticate too often."""
        if self._failures is not None:
            wait = self._ledger.wait(_place(address), self._failures)
            if wait:
                raise TooManyFailures(
                    "too many invalid credentials came from your address", "failures", wait
                )

    def note_failure(self, address: str) -> None:
        """An address sent invalid credentials."""
        if self._failures is not None:
            self._ledger.charge(_place(address), self._failures)

    def close(self) -> None:
        """Close the ledger."""
        self._ledger.close()

    def _all_exist(self, key: QueueKey, ids: Sequence[str]) -> bool:
        found = find_each(self._store, key, ids)
        return all(job is not None and job.state in KEEPS_ID for job in found)


def _grown(queue: QueueKey, step: Transition, job: Record | None) -> QueueKey | None:
    """The queue that has one more live job after this step, if any has."""
    if job is None or not may_start(step, job.state):
        return None
    if step.act is Act.REDRIVE:
        return queue
    # The store refuses to move a job to another tenant, whose room is none of the caller's.
    own = step.target is not None and may_move(queue, step.target)
    return step.target if own and job.state in LIVE else None


def _rate(per_second: float | None, burst: float | None) -> Rate | None:
    return Rate(per_second, burst or max(1.0, per_second)) if per_second else None


def _full(key: QueueKey, allowance: Allowance) -> str:
    limits = []
    if allowance.queue_jobs:
        limits.append(f"{allowance.queue_jobs:,} live jobs in a queue")
    if allowance.tenant_jobs:
        limits.append(f"{allowance.tenant_jobs:,} in all")
    return f"queue {key.name!r} is full for now: your tenant may have {' and '.join(limits)}"


def _place(address: str) -> str:
    """The name that an address is counted under; for IPv6 its network, which has one owner."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return f"failures {address}"
    if parsed.version == 6 and parsed.ipv4_mapped is None:
        return f"failures {ipaddress.ip_network((int(parsed), 64), strict=False)}"
    return f"failures {address}"
