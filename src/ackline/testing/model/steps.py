"""One history: the steps that are applied to both stores."""

from __future__ import annotations

from collections.abc import Sequence

from ackline.core.config import QueueSettings
from ackline.core.errors import StoreFull
from ackline.core.job import Draft, QueueKey
from ackline.core.lifecycle import Transition
from ackline.stores.contract import (
    ClaimRequest,
    Filter,
    Heartbeat,
    KeyWrite,
    LeaseExtension,
    Receipt,
    Store,
)
from ackline.testing.model.generators import SETTLING, UNDELIVERED_KEYS, Operation
from ackline.testing.model.store_pair import NO_LIMIT, JobPair, StorePair

QUEUES = ("q", "r")
TICK = 0.001

Steps = list[tuple[Transition, Transition]]


class JobSteps:
    """What producers, workers and operators do to two queues of one tenant."""

    def __init__(self, stores: StorePair, tenant: str) -> None:
        self.stores = stores
        self.queues = tuple(QueueKey(tenant, name) for name in QUEUES)
        self.leases: list[tuple[QueueKey, JobPair]] = []
        self.lease_reads: list[tuple[QueueKey, list[JobPair]]] = []

    @property
    def tenant(self) -> str:
        return self.queues[0].tenant

    def _lease(self, age: int) -> tuple[QueueKey, JobPair]:
        return self.leases[-1 - age % len(self.leases)]

    def _read_leases(self, queue: QueueKey, worker: str | None) -> bool:
        if found := self.stores.leases(queue, worker):
            self.lease_reads.append((queue, found))
        return bool(found)

    def _steps(self, settlings: Sequence[tuple[int, str]]) -> Steps:
        """Settle leases of any age: most are stale, and both stores must reject the same ones."""
        steps = []
        for age, act in settlings:
            _, (ours, theirs) = self._lease(age)
            steps.append((SETTLING[act](ours), SETTLING[act](theirs)))
        return steps

    def _claim(self, queue: QueueKey, request: ClaimRequest, steps: Steps) -> None:
        jobs, lapsed = self.stores.claim(queue, request, steps)
        # Tokens are derived from the time and unique within one queue. Two queues must not issue
        # the same one here: a lease sent to the wrong queue would then be valid there.
        self.stores.clock.advance(TICK)
        self.leases += [(queue, pair) for pair in jobs]
        if lapsed:
            self.lease_reads.append((queue, lapsed))

    # --- steps ---

    def enqueue(self, queue: int, drafts: list[Draft]) -> None:
        def answer(store: Store) -> list[Receipt] | str:
            try:
                return store.enqueue(self.queues[queue], drafts)
            except StoreFull:
                return "full"

        self.stores.both(answer)

    def claim(self, queue: int, request: ClaimRequest) -> None:
        self._claim(self.queues[queue], request, [])

    def enqueue_and_claim(self, queue: int, drafts: list[Draft], request: ClaimRequest) -> None:
        self.enqueue(queue, drafts)
        self.claim(queue, request)

    def advance(self, seconds: float) -> None:
        self.stores.clock.advance(seconds)

    def settle_and_claim(self, settlings: list[tuple[int, str]], request: ClaimRequest) -> None:
        if self.leases:
            queue, _ = self._lease(settlings[0][0])
            self._claim(queue, request, self._steps(settlings))

    def settle(self, settlings: list[tuple[int, str]], wrong_queue: bool) -> None:
        if not self.leases:
            return
        queue, _ = self._lease(settlings[0][0])
        if wrong_queue:
            queue = self.queues[0 if queue == self.queues[1] else 1]
        self.stores.apply(queue, self._steps(settlings))

    def heartbeat(self, ages: list[int], worker: str, seconds: float, ttl: float) -> None:
        if not self.leases:
            return
        queue, _ = self._lease(ages[0])
        heartbeat = Heartbeat(
            id=worker, host="h", pid=1, started_at=0.0, concurrency=1, kinds=None, ttl=ttl
        )
        leases = [self._lease(age)[1] for age in ages]
        ours, theirs = (
            tracked.store.heartbeat(
                queue,
                heartbeat,
                [LeaseExtension(pair[n].id, pair[n].token, seconds) for pair in leases],
            )
            for n, tracked in enumerate((self.stores.candidate, self.stores.reference))
        )
        assert ours == theirs

    def read_leases(self, queue: int, worker: str | None) -> None:
        self._read_leases(self.queues[queue], worker)

    def expire(self, age: int) -> None:
        """Sweep by an old read: the leases may have been settled or extended since."""
        if not self.lease_reads:
            return
        queue, pairs = self.lease_reads[-1 - age % len(self.lease_reads)]
        sweep = SETTLING["expire"]
        self.stores.apply(queue, [(sweep(ours), sweep(theirs)) for ours, theirs in pairs])

    def crash_and_sweep(self, queue: int, seconds: float) -> None:
        self.advance(seconds)
        if self._read_leases(self.queues[queue], None):
            self.expire(0)

    def operate(self, queue: int, operations: list[Operation]) -> None:
        steps = [operation.step(self.queues) for operation in operations]
        self.stores.apply(self.queues[queue], [(step, step) for step in steps])


class ModelSteps(JobSteps):
    """`JobSteps` and what maintenance and administration add from time to time."""

    def promote(self, queue: int, limit: int) -> None:
        self.stores.both(lambda store: store.promote(self.queues[queue], limit))

    def prune(self, queue: int, registered: bool) -> None:
        self.stores.prune(self.queues[queue], registered)

    def purge(self, queue: int, which: Filter) -> None:
        self.stores.both(lambda store: store.purge(self.queues[queue], which, NO_LIMIT, "me"))

    def configure(self, queue: int, settings: QueueSettings) -> None:
        self.stores.both(lambda store: store.configure(self.queues[queue], settings))

    def write_key(self, value: bytes | None, version: int | None) -> None:
        write = KeyWrite(key=UNDELIVERED_KEYS[0], value=value, version=version)
        self.stores.both(lambda store: store.write_keys(self.tenant, [write]))

    def read_everything(self, queue: int, which: Filter, size: int) -> None:
        self.stores.page(self.queues[queue], which, size)
        self.stores.both(lambda store: store.workers([self.queues[queue]]))
        self.stores.both(
            lambda store: [
                (entry.key, entry.value) for entry in store.read_keys(self.tenant, (), NO_LIMIT)
            ]
        )
