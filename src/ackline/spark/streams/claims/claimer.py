"""Claims jobs for the next micro-batch, within its limits.

Jobs that a driver claimed but could not save in a manifest are found by its worker's name and
released.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from ackline.core import lifecycle
from ackline.core.job import LIVE, Record, State
from ackline.queue import Queue
from ackline.queue.consume import poll_interval
from ackline.spark.options import ClaimsOptions
from ackline.spark.store.page_size import MAX_BATCH, AdaptivePageSize, count_fitting, read_pages
from ackline.spark.streams.claims.lease_renewer import LeaseRenewer
from ackline.spark.streams.claims.leases import leases_of
from ackline.spark.streams.claims.manifest_store import ManifestStore
from ackline.stores.contract import Filter


class Claimer:
    """Claims jobs for one stream."""

    def __init__(
        self,
        queue: Queue[Any, Any],
        options: ClaimsOptions,
        manifest_store: ManifestStore,
        renewer: LeaseRenewer,
    ) -> None:
        self._queue = queue
        self._options = options
        self._manifest_store = manifest_store
        self._renewer = renewer
        self._budget: int | None = None
        self._page_size = AdaptivePageSize(MAX_BATCH)

    def stop_at_current_jobs(self) -> None:
        """Claim no more jobs than there are now, including those whose leases expire."""
        counts = self._queue.counts()
        self._budget = sum(counts[state] for state in LIVE)

    def claim(self, limit: int) -> list[Record]:
        """Claim as many jobs as are waiting, within the limits.

        If this fails midway, `release_orphans` releases what was claimed: it is in no manifest.
        """
        records: list[Record] = []
        if self._budget is not None:
            limit = min(limit, self._budget)
        bytes_left = self._options.max_bytes_per_trigger
        while len(records) < limit and bytes_left > 0:
            wait = 0.0 if records or self._budget is not None else self._options.wait
            found = self._claim_some(
                min(self._page_size.next(bytes_left), limit - len(records)), wait
            )
            if not found:
                break
            fitting = count_fitting(found, bytes_left)
            bytes_left -= self._page_size.observe_jobs(found)
            self._start_extending(found[:fitting])
            records += found[:fitting]
            if surplus := found[fitting:]:
                # They are larger than expected: the driver may not have memory for all of them.
                self.release(surplus)
        return records

    def use_budget(self, jobs: int) -> None:
        """Count jobs that were claimed and saved against the budget.

        Those that could not be saved are released, and can be claimed again.
        """
        if self._budget is not None:
            self._budget -= jobs

    def release_orphans(self) -> None:
        """Release jobs that were claimed for this stream but are in none of its manifests."""
        leased = Filter(states=frozenset({State.PROCESSING}))
        for jobs in read_pages(partial(self._queue.store.page, self._queue.key, leased), MAX_BATCH):
            # All drivers of a stream claim as one worker. Once `confirm` succeeds, no later driver
            # can have claimed these, and no manifest of them can be saved any more.
            while (orphans := self._orphans(jobs)) and not self._manifest_store.confirm():
                self._manifest_store.load()
            if orphans:
                self.release(orphans)

    def _orphans(self, leased: Iterable[Record]) -> list[Record]:
        claimed = [job for job in leased if job.worker == self._options.worker_id]
        manifest_leases = self._manifest_store.leases if claimed else set()
        return [job for job in claimed if (job.id, job.token) not in manifest_leases]

    def release(self, records: Iterable[Record]) -> int:
        """Release jobs to the queue; returns how many were still leased to the stream."""
        jobs = list(records)
        self._renewer.remove(leases_of(jobs))
        policy = self._queue.policies.of
        verdicts = self._queue.apply([lifecycle.release(job, policy(job)) for job in jobs])
        return sum(verdict.applied for verdict in verdicts)

    def _claim_some(self, limit: int, wait: float) -> list[Record]:
        options = self._options
        request = self._queue.claim_request(
            limit, options.lease, options.kinds_or_all, options.worker_id
        )
        claimed = self._queue.claim_records(request)
        if claimed.jobs or not wait:
            return claimed.jobs
        with self._queue.store.listen([self._queue.key], "ready", options.kinds_or_all) as listener:
            claimed = self._queue.claim_records(request)
            if claimed.jobs:
                return claimed.jobs
            listener.wait(min(wait, poll_interval(claimed)))
        return self._queue.claim_records(request).jobs

    def _start_extending(self, records: Sequence[Record]) -> None:
        self._renewer.add(leases_of(records))
        # A job may have set a shorter lease than the stream needs.
        if short := [record for record in records if record.options.lease is not None]:
            self._renewer.extend(leases_of(short))
