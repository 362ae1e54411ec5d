"""All limits of a process: checked before every route, and when jobs are added."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from ackline.job import QueueKey
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
from ackline.stores.base import Store

MOST_WAITING_NAMES = 50_000
"""How many queue names the requests and streams of a tenant wait for, unless the settings say."""


class Limits:
    """The limits of tenants and addresses; checking one that is not set costs nothing."""

    def __init__(self, settings: Settings, store: Store, folder: Path | None = None) -> None:
        self._folder = folder
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
    def admitting(self, key: QueueKey, jobs: int) -> Iterator[None]:
        """Wraps an enqueue, which is refused if it has too many jobs; it may block."""
        self.admit_jobs(key.tenant, jobs)
        if not jobs or not self.counts_jobs_of(key.tenant):
            yield
            return
        self.take_room(key, jobs)
        try:
            yield
        finally:
            self.leave_room(key, jobs)

    def require_room(self, key: QueueKey, jobs: int, *, moved: bool = False) -> None:
        """Refuse an operator's act if it makes too many more jobs of a queue live; it may block.

        Jobs that are `moved` count for the queue only: the tenant has them already. The room is
        not reserved while the act runs, which may take minutes: jobs that have arrived would count
        twice, and enqueues would be refused because of that.
        """
        if jobs and self.counts_jobs_of(key.tenant):
            self.take_room(key, jobs, moved=moved)
            self.leave_room(key, jobs)

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
