"""Does everything to the jobs of others: `python -m tests.harness.faults.meddler ASSIGNMENT`."""

from __future__ import annotations

import random

import msgspec

from ackline.config import DEFAULTS
from ackline.job import QueueKey, Record, State
from ackline.lifecycle import (
    Edit,
    Transition,
    cancel,
    edit,
    expire,
    move,
    redrive,
    request_cancel,
)
from ackline.stores.base import ClaimRequest, Filter
from ackline.testing.settling import fenced_steps
from tests.harness.faults.assignment import Post, from_command_line
from tests.harness.faults.history import Phase, Step, What

SIDE = "side"
"""The queue that jobs are moved to, and back."""

MOMENT = 0.03
"""Seconds for which a meddler leases the jobs that it abandons."""

FEW = 8

# Not `complete`: a job that no handler has done must not count as done.
_STALE = ("fail", "snooze", "release", "extend", "progress")


class Meddler:
    """One of many that sweep, cancel, move and claim the same few jobs."""

    def __init__(self, post: Post) -> None:
        self._post = post
        self._store, self._key = post.queues.store, post.queue.key
        self._side = QueueKey(self._key.tenant, SIDE)
        self._random = random.Random(f"{post.assignment.seed} {post.assignment.name}")
        self._abandoned: list[Record] = []
        steps = fenced_steps(post.queue.policies.of, snoozed=0.05, extended=MOMENT)
        self._stale = [steps[name] for name in _STALE]

    def meddle(self) -> None:
        """Do one of the acts, and note it."""
        acts = (self.abandon, self.settle_late, self.sweep, self.operate, self.move, self.tidy)
        act = self._random.choice(acts)
        done = Step(
            what=What.FAULT,
            phase=Phase.OK,
            id=f"{self._post.assignment.name} {self._random.random()}",
            act=act.__name__.replace("_", " "),
            worker=self._post.assignment.name,
        )
        # From before the act on: others may expire what it leases before it returns.
        self._post.history.write(msgspec.structs.replace(done, phase=Phase.INVOKE))
        act()
        self._post.history.write(done)

    def abandon(self) -> None:
        """Claim jobs for a moment, and forget them."""
        request = ClaimRequest(worker=self._post.assignment.name, limit=FEW, lease=MOMENT)
        self._abandoned = self._store.claim(self._key, request).jobs + self._abandoned[:FEW]

    def settle_late(self) -> None:
        """Settle the abandoned jobs: other processes hold some of them by now."""
        late, self._abandoned = self._abandoned, []
        self._store.apply(self._key, [self._random.choice(self._stale)(job) for job in late])

    def sweep(self) -> None:
        """Expire lapsed leases, as others do at the same time."""
        lapsed = self._store.leases(self._key)
        policy = self._post.queue.policies.of
        self._store.apply(self._key, [expire(job, policy(job)) for job in lapsed])

    def operate(self) -> None:
        """Cancel, redrive and edit jobs in any state."""
        steps = [self._operation(job) for job in self._sample(self._key)]
        self._store.apply(self._key, steps)

    def _operation(self, job: Record) -> Transition:
        return self._random.choice(
            (
                cancel(job.id, DEFAULTS),
                request_cancel(job.id),
                redrive(job.id),
                edit(job.id, Edit(priority=self._random.randrange(10))),
                edit(job.id, Edit(delay=0.01)),
            )
        )

    def move(self) -> None:
        """Move jobs to the other queue, and those there back."""
        self._move_all(self._key, self._side, self._sample(self._key))
        self.bring_back()

    def bring_back(self) -> None:
        """Leave nothing in the other queue."""
        self._move_all(self._side, self._key, self._sample(self._side, states=frozenset(State)))

    def _move_all(self, source: QueueKey, target: QueueKey, jobs: list[Record]) -> None:
        self._store.apply(source, [move(job.id, target) for job in jobs])

    def tidy(self) -> None:
        """Promote and prune, as every maintenance process does."""
        self._store.promote(self._key, FEW)
        self._store.prune(self._key, FEW)

    def _sample(self, queue: QueueKey, states: frozenset[State] | None = None) -> list[Record]:
        which = Filter(states=states or frozenset({self._random.choice(tuple(State))}))
        found = self._store.page(queue, which, None, 200).jobs
        return self._random.sample(found, min(FEW, len(found)))


def main() -> None:
    """Meddle until told to stop."""
    post = Post(from_command_line())
    post.open()
    meddler = Meddler(post)
    while not post.stopping.wait(post.assignment.pause):
        meddler.meddle()
    while post.queues.store.page(QueueKey(post.queue.key.tenant, SIDE), Filter(), None, 1).jobs:
        meddler.bring_back()
    post.close()


if __name__ == "__main__":
    main()
