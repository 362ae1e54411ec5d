"""Changes the jobs of other processes: `python -m
tests.harness.faults.programs.interfering_client OPTIONS`."""

from __future__ import annotations

import random

import msgspec

from ackline.core.config import DEFAULTS
from ackline.core.job import QueueKey, Record, State
from ackline.core.lifecycle import (
    Edit,
    Transition,
    cancel,
    edit,
    expire,
    move,
    redrive,
    request_cancel,
)
from ackline.stores.contract import ClaimRequest, Filter
from ackline.testing.fenced_transitions import fenced_transitions
from tests.harness.faults.checks.history import Phase, Step, StepType
from tests.harness.faults.programs.options import Program, parse_command_line

SIDE_QUEUE = "side"
"""The queue that jobs are moved to, and back."""

SHORT_LEASE = 0.03
"""Seconds for which it leases the jobs that it abandons."""

SAMPLE_SIZE = 8

# Without `complete`: a job that no handler has run must not count as completed.
_STALE = ("fail", "snooze", "release", "extend", "progress")


class InterferingClient:
    """Claims, settles, expires, cancels, edits and moves jobs of other processes."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._store, self._key = program.queues.store, program.queue.key
        self._side = QueueKey(self._key.tenant, SIDE_QUEUE)
        self._random = random.Random(f"{program.options.seed} {program.options.name}")
        self._abandoned: list[Record] = []
        steps = fenced_transitions(program.queue.policies.of, snoozed=0.05, extended=SHORT_LEASE)
        self._stale = [steps[name] for name in _STALE]

    def interfere(self) -> None:
        """Do a random act, and record it as a fault."""
        acts = (
            self.abandon,
            self.settle_late,
            self.sweep,
            self.operate,
            self.move,
            self.promote_and_prune,
        )
        act = self._random.choice(acts)
        done = Step(
            type=StepType.FAULT,
            phase=Phase.OK,
            id=f"{self._program.options.name} {self._random.random()}",
            act=act.__name__.replace("_", " "),
            worker=self._program.options.name,
        )
        # Recorded before the act: others may expire its leases before it returns.
        self._program.history.write(msgspec.structs.replace(done, phase=Phase.INVOKE))
        act()
        self._program.history.write(done)

    def abandon(self) -> None:
        """Claim jobs with a short lease, and abandon them."""
        request = ClaimRequest(
            worker=self._program.options.name, limit=SAMPLE_SIZE, lease=SHORT_LEASE
        )
        self._abandoned = self._store.claim(self._key, request).jobs + self._abandoned[:SAMPLE_SIZE]

    def settle_late(self) -> None:
        """Settle the abandoned jobs, some of which other processes have claimed meanwhile."""
        abandoned, self._abandoned = self._abandoned, []
        self._store.apply(self._key, [self._random.choice(self._stale)(job) for job in abandoned])

    def sweep(self) -> None:
        """Expire leases, as others do at the same time."""
        expired = self._store.leases(self._key)
        policy = self._program.queue.policies.of
        self._store.apply(self._key, [expire(job, policy(job)) for job in expired])

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
        """Move jobs to the side queue, and others back."""
        self._move_all(self._key, self._side, self._sample(self._key))
        self.move_back()

    def move_back(self) -> None:
        """Move all jobs in the side queue back."""
        self._move_all(self._side, self._key, self._sample(self._side, states=frozenset(State)))

    def _move_all(self, source: QueueKey, target: QueueKey, jobs: list[Record]) -> None:
        self._store.apply(source, [move(job.id, target) for job in jobs])

    def promote_and_prune(self) -> None:
        """Promote and prune, as every maintenance process does."""
        self._store.promote(self._key, SAMPLE_SIZE)
        self._store.prune(self._key, SAMPLE_SIZE)

    def _sample(self, queue: QueueKey, states: frozenset[State] | None = None) -> list[Record]:
        job_filter = Filter(states=states or frozenset({self._random.choice(tuple(State))}))
        found = self._store.page(queue, job_filter, None, 200).jobs
        return self._random.sample(found, min(SAMPLE_SIZE, len(found)))


def main() -> None:
    """Interfere until stopped."""
    program = Program(parse_command_line())
    program.open()
    client = InterferingClient(program)
    while not program.stopping.wait(program.options.max_pause):
        client.interfere()
    while program.queues.store.page(
        QueueKey(program.queue.key.tenant, SIDE_QUEUE), Filter(), None, 1
    ).jobs:
        client.move_back()
    program.close()


if __name__ == "__main__":
    main()
