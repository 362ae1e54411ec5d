"""Counts a tenant's live jobs for its limit: by the store, and an upper estimate in between."""

from __future__ import annotations

import threading
import time
from collections import Counter

from ackline.core.job import LIVE, QueueKey
from ackline.service.limits.tenant_limits import TenantLimits
from ackline.stores.contract import QueueInfo, Store

MAX_AGE = 1.0
"""Seconds for which a count is used; other processes may enqueue more in that time."""

MIN_RECOUNT_INTERVAL = 0.05
"""Minimum seconds between two counts of a tenant without capacity."""


class TenantDepth:
    """The live jobs of one tenant, never underestimated as far as this process knows."""

    def __init__(self, store: Store, tenant: str) -> None:
        self._store = store
        self._tenant = tenant
        self._counted: Counter[str] = Counter()
        self._added: Counter[str] = Counter()
        """Jobs that were stored since the last count."""
        self._reserved: Counter[str] = Counter()
        """Jobs that are about to be stored."""
        self._counted_at = float("-inf")
        self._changing = threading.Lock()
        self._counting = threading.Lock()

    def reserve(self, queue: str, jobs: int, limits: TenantLimits) -> bool:
        """Reserve capacity for jobs, if there is any. May block: it may ask the store."""
        if self._age > MAX_AGE:
            self._recount(MAX_AGE)
        reserved = self._try(queue, jobs, limits)
        if not reserved and self._age > MIN_RECOUNT_INTERVAL:
            self._recount(MIN_RECOUNT_INTERVAL)
            reserved = self._try(queue, jobs, limits)
        return reserved

    def confirm(self, queue: str, jobs: int) -> None:
        """End a reservation: its jobs were stored, or refused."""
        with self._changing:
            self._added[queue] += jobs
            self._reserved[queue] -= jobs

    def _try(self, queue: str, jobs: int, limits: TenantLimits) -> bool:
        with self._changing:
            known = self._counted + self._added + self._reserved
            fits_queue = known[queue] + jobs <= (limits.queue_jobs or float("inf"))
            fits = fits_queue and known.total() + jobs <= (limits.tenant_jobs or float("inf"))
            if fits:
                self._reserved[queue] += jobs
            return fits

    @property
    def _age(self) -> float:
        return time.monotonic() - self._counted_at

    def _recount(self, max_age: float) -> None:
        with self._counting:
            if self._age <= max_age:
                return  # another thread has just counted
            with self._changing:
                before = Counter(self._added)
            started, found = time.monotonic(), self._store.describe(self._tenant)
            with self._changing:
                self._added -= before
                self._counted = Counter({info.key.name: _live(info) for info in found})
                self._counted_at = started


def _live(info: QueueInfo) -> int:
    return sum(info.counts[state] for state in LIVE)


class DepthTracker:
    """The live jobs of all tenants that have a limit."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._depths: dict[str, TenantDepth] = {}

    def of(self, key: QueueKey) -> TenantDepth:
        """The live jobs of one tenant."""
        depth = self._depths.get(key.tenant)
        if depth is None:
            depth = self._depths.setdefault(key.tenant, TenantDepth(self._store, key.tenant))
        return depth
