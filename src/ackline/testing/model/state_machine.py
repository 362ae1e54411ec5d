"""The state machine: each step is applied to both stores, and all invariants are checked."""

from __future__ import annotations

from hypothesis import note, strategies
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ackline.core.job import LIVE, TERMINAL
from ackline.testing.model.generators import IDS, MAX_ATTEMPTS
from ackline.testing.model.steps import ModelSteps
from ackline.testing.model.store_pair import StorePair
from ackline.testing.model.workloads import WORKLOADS, Step


class StoreStateMachine(RuleBasedStateMachine):
    """One history of one workload.

    Each step is one choice from a long list, not a rule per verb: Hypothesis leaves
    rules out at random, and a history without claims or without time proves little.
    """

    def __init__(self, stores: StorePair, tenant: str) -> None:
        super().__init__()
        self.model = ModelSteps(stores, tenant)
        self.steps: tuple[Step, ...] = ()

    @initialize(workload=strategies.sampled_from(sorted(WORKLOADS)))
    def begin(self, workload: str) -> None:
        self.steps = WORKLOADS[workload]()

    @rule(number=strategies.integers(0, 2**14 - 1))
    def take_step(self, number: int) -> None:
        step = self.steps[number % len(self.steps)]
        note(f"  # {step}")
        step.run(self.model)

    @invariant()
    def every_job_is_the_same_and_counted_once(self) -> None:
        infos = self.model.stores.both(lambda store: store.describe(self.model.tenant))
        counts = {info.key: info.counts for info in infos}
        for queue in self.model.queues:
            ours, theirs = (
                [tracked.with_lease_numbers(queue, job) for job in tracked.store.get(queue, IDS)]
                for tracked in (self.model.stores.candidate, self.model.stores.reference)
            )
            assert ours == theirs
            states = [job.state for job in ours if job is not None]
            for state in LIVE:
                assert counts.get(queue, {}).get(state, 0) == states.count(state)
            for state in TERMINAL:
                # A job past its retention counts until it is pruned, but cannot be seen.
                assert counts.get(queue, {}).get(state, 0) >= states.count(state)

    @invariant()
    def every_entry_is_the_same_and_legal(self) -> None:
        for queue in self.model.queues:
            ours, theirs = (
                [
                    (
                        e.act,
                        e.id,
                        e.kind,
                        e.source,
                        e.to,
                        e.attempt,
                        e.worker,
                        e.note,
                        e.by,
                        e.at,
                        e.priority,
                        e.moved_from,
                        e.moved_to,
                        e.recovered_by,
                    )
                    for e in tracked.new_events(queue)
                ]
                for tracked in (self.model.stores.candidate, self.model.stores.reference)
            )
            assert ours == theirs

    @invariant()
    def no_job_is_delivered_too_often(self) -> None:
        for queue in self.model.queues:
            for id in IDS:
                assert (
                    self.model.stores.candidate.journal_checker.deliveries(queue, id)
                    <= MAX_ATTEMPTS
                )
