"""The limit on a tenant's live jobs: counted by the store, estimated upwards in between."""

from __future__ import annotations

import threading
import time
from collections import Counter

from ackline.core.job import LIVE, QueueKey
from ackline.service.limits.tenant_limits import TenantLimits
from ackline.stores.contract import QueueInfo, Store

MAX_AGE = 1.0
"""Seconds for which a count is used; what other processes enqueue meanwhile is not seen."""

MIN_RECOUNT_INTERVAL = 0.05
"""Seconds between two looks at a tenant that has no room."""


class TenantDepth:
    """The live jobs of one tenant: never fewer than there are, as far as this process knows."""

    def __init__(self, store: Store, tenant: str) -> None:
        self._store = store
        self._tenant = tenant
        self._counted: Counter[str] = Counter()
        self._added: Counter[str] = Counter()
        """Jobs that have arrived since the last look."""
        self._reserved: Counter[str] = Counter()
        """Jobs on their way to the store."""
        self._looked_at = float("-inf")
        self._changing = threading.Lock()
        self._looking = threading.Lock()

    def reserve(self, queue: str, jobs: int, allowance: TenantLimits) -> bool:
        """Reserve room for jobs, if there is any; it may ask the store, so off the event loop."""
        if self._age > MAX_AGE:
            self._recount(MAX_AGE)
        taken = self._try(queue, jobs, allowance)
        if not taken and self._age > MIN_RECOUNT_INTERVAL:
            self._recount(MIN_RECOUNT_INTERVAL)
            taken = self._try(queue, jobs, allowance)
        return taken

    def confirm(self, queue: str, jobs: int) -> None:
        """Jobs were stored, or refused."""
        with self._changing:
            self._added[queue] += jobs
            self._reserved[queue] -= jobs

    def _try(self, queue: str, jobs: int, allowance: TenantLimits) -> bool:
        with self._changing:
            known = self._counted + self._added + self._reserved
            here = known[queue] + jobs <= (allowance.queue_jobs or float("inf"))
            room = here and known.total() + jobs <= (allowance.tenant_jobs or float("inf"))
            if room:
                self._reserved[queue] += jobs
            return room

    @property
    def _age(self) -> float:
        return time.monotonic() - self._looked_at

    def _recount(self, fresh: float) -> None:
        with self._looking:
            if self._age <= fresh:
                return  # someone else has just looked
            with self._changing:
                before = Counter(self._added)
            began, found = time.monotonic(), self._store.describe(self._tenant)
            with self._changing:
                self._added -= before
                self._counted = Counter({info.key.name: _live(info) for info in found})
                self._looked_at = began


def _live(info: QueueInfo) -> int:
    return sum(info.counts[state] for state in LIVE)


class DepthTracker:
    """The depths of all tenants that have a limit."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._depths: dict[str, TenantDepth] = {}

    def of(self, key: QueueKey) -> TenantDepth:
        """The depth of one tenant."""
        depth = self._depths.get(key.tenant)
        if depth is None:
            depth = self._depths.setdefault(key.tenant, TenantDepth(self._store, key.tenant))
        return depth
