"""One history: what can happen to both stores."""

from __future__ import annotations

from collections.abc import Sequence

from ackline.config import QueueSettings
from ackline.errors import StoreFull
from ackline.job import Draft, QueueKey
from ackline.lifecycle import Transition
from ackline.stores.base import (
    ClaimRequest,
    Filter,
    Hold,
    KeyWrite,
    Receipt,
    Store,
    WorkerBeat,
)
from ackline.testing.model.choices import LOST, SETTLING, Operation
from ackline.testing.model.sides import ENOUGH, Pair, Sides

QUEUES = ("q", "r")
TICK = 0.001

Steps = list[tuple[Transition, Transition]]


class Work:
    """What producers, workers and operators do to two queues of one tenant."""

    def __init__(self, sides: Sides, tenant: str) -> None:
        self.sides = sides
        self.queues = tuple(QueueKey(tenant, name) for name in QUEUES)
        self.leases: list[tuple[QueueKey, Pair]] = []
        self.looks: list[tuple[QueueKey, list[Pair]]] = []

    @property
    def tenant(self) -> str:
        return self.queues[0].tenant

    def _lease(self, back: int) -> tuple[QueueKey, Pair]:
        return self.leases[-1 - back % len(self.leases)]

    def _look(self, queue: QueueKey, worker: str | None) -> bool:
        if found := self.sides.leases(queue, worker):
            self.looks.append((queue, found))
        return bool(found)

    def _steps(self, settlings: Sequence[tuple[int, str]]) -> Steps:
        """Settle leases of any age: most are stale, and both stores must refuse them alike."""
        steps = []
        for back, act in settlings:
            _, (ours, theirs) = self._lease(back)
            steps.append((SETTLING[act](ours), SETTLING[act](theirs)))
        return steps

    def _claim(self, queue: QueueKey, request: ClaimRequest, steps: Steps) -> None:
        jobs, lapsed = self.sides.claim(queue, request, steps)
        # Tokens are made from the time, and are unique within one queue. Two queues must not give
        # out the same one here: a lease sent to the wrong queue would be taken for its own.
        self.sides.clock.advance(TICK)
        self.leases += [(queue, pair) for pair in jobs]
        if lapsed:
            self.looks.append((queue, lapsed))

    # --- what happens ---

    def enqueue(self, queue: int, drafts: list[Draft]) -> None:
        def answer(store: Store) -> list[Receipt] | str:
            try:
                return store.enqueue(self.queues[queue], drafts)
            except StoreFull:
                return "full"

        self.sides.both(answer)

    def claim(self, queue: int, request: ClaimRequest) -> None:
        self._claim(self.queues[queue], request, [])

    def enqueue_and_claim(self, queue: int, drafts: list[Draft], request: ClaimRequest) -> None:
        self.enqueue(queue, drafts)
        self.claim(queue, request)

    def advance(self, seconds: float) -> None:
        self.sides.clock.advance(seconds)

    def settle_and_claim(self, settlings: list[tuple[int, str]], request: ClaimRequest) -> None:
        if self.leases:
            queue, _ = self._lease(settlings[0][0])
            self._claim(queue, request, self._steps(settlings))

    def settle(self, settlings: list[tuple[int, str]], astray: bool) -> None:
        if not self.leases:
            return
        queue, _ = self._lease(settlings[0][0])
        if astray:
            queue = self.queues[0 if queue == self.queues[1] else 1]
        self.sides.apply(queue, self._steps(settlings))

    def heartbeat(self, backs: list[int], worker: str, seconds: float, ttl: float) -> None:
        if not self.leases:
            return
        queue, _ = self._lease(backs[0])
        beat = WorkerBeat(
            id=worker, host="h", pid=1, started_at=0.0, concurrency=1, kinds=None, ttl=ttl
        )
        held = [self._lease(back)[1] for back in backs]
        ours, theirs = (
            side.store.heartbeat(
                queue, beat, [Hold(pair[n].id, pair[n].token, seconds) for pair in held]
            )
            for n, side in enumerate((self.sides.candidate, self.sides.reference))
        )
        assert ours == theirs

    def look_for_leases(self, queue: int, worker: str | None) -> None:
        self._look(self.queues[queue], worker)

    def expire(self, back: int) -> None:
        """Sweep by a look that may be old: the lease may have been settled or extended since."""
        if not self.looks:
            return
        queue, seen = self.looks[-1 - back % len(self.looks)]
        sweep = SETTLING["expire"]
        self.sides.apply(queue, [(sweep(ours), sweep(theirs)) for ours, theirs in seen])

    def crash_and_sweep(self, queue: int, seconds: float) -> None:
        self.advance(seconds)
        if self._look(self.queues[queue], None):
            self.expire(0)

    def operate(self, queue: int, operations: list[Operation]) -> None:
        steps = [operation.step(self.queues) for operation in operations]
        self.sides.apply(self.queues[queue], [(step, step) for step in steps])


class History(Work):
    """Work, and what maintenance and administration do to it now and then."""

    def promote(self, queue: int, limit: int) -> None:
        self.sides.both(lambda store: store.promote(self.queues[queue], limit))

    def prune(self, queue: int, registered: bool) -> None:
        self.sides.prune(self.queues[queue], registered)

    def purge(self, queue: int, which: Filter) -> None:
        self.sides.both(lambda store: store.purge(self.queues[queue], which, ENOUGH, "me"))

    def configure(self, queue: int, settings: QueueSettings) -> None:
        self.sides.both(lambda store: store.configure(self.queues[queue], settings))

    def write_key(self, value: bytes | None, version: int | None) -> None:
        write = KeyWrite(key=LOST[0], value=value, version=version)
        self.sides.both(lambda store: store.write_keys(self.tenant, [write]))

    def look_around(self, queue: int, which: Filter, size: int) -> None:
        self.sides.page(self.queues[queue], which, size)
        self.sides.both(lambda store: store.workers([self.queues[queue]]))
        self.sides.both(
            lambda store: [
                (entry.key, entry.value) for entry in store.read_keys(self.tenant, (), ENOUGH)
            ]
        )
