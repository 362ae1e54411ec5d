"""The state machine: each step happens to both stores, and all invariants must hold."""

from __future__ import annotations

from hypothesis import note, strategies
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ackline.core.job import LIVE, TERMINAL
from ackline.testing.model.generators import IDS, MAX_ATTEMPTS
from ackline.testing.model.steps import ModelSteps
from ackline.testing.model.store_pair import StorePair
from ackline.testing.model.workloads import WORKLOADS, Step


class StoreStateMachine(RuleBasedStateMachine):
    """One history under one climate.

    What happens is one choice from a long list, not a rule for each verb: Hypothesis leaves
    out rules at random, and a history without claims or without time is not worth its run.
    """

    def __init__(self, sides: StorePair, tenant: str) -> None:
        super().__init__()
        self.history = ModelSteps(sides, tenant)
        self.happenings: tuple[Step, ...] = ()

    @initialize(climate=strategies.sampled_from(sorted(WORKLOADS)))
    def begin(self, climate: str) -> None:
        self.happenings = WORKLOADS[climate]()

    @rule(number=strategies.integers(0, 2**14 - 1))
    def happen(self, number: int) -> None:
        happening = self.happenings[number % len(self.happenings)]
        note(f"  # {happening}")
        happening.play(self.history)

    @invariant()
    def every_job_is_the_same_and_counted_once(self) -> None:
        infos = self.history.stores.both(lambda store: store.describe(self.history.tenant))
        counts = {info.key: info.counts for info in infos}
        for queue in self.history.queues:
            ours, theirs = (
                [side.seen(queue, job) for job in side.store.get(queue, IDS)]
                for side in (self.history.stores.candidate, self.history.stores.reference)
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
        for queue in self.history.queues:
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
                    )
                    for e in side.news(queue)
                ]
                for side in (self.history.stores.candidate, self.history.stores.reference)
            )
            assert ours == theirs

    @invariant()
    def no_job_is_delivered_too_often(self) -> None:
        for queue in self.history.queues:
            for id in IDS:
                assert self.history.stores.candidate.lives.deliveries(queue, id) <= MAX_ATTEMPTS
