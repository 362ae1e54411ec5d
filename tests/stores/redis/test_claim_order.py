"""The order of claims with hundreds of kinds and groups, against the memory store."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from tests.stores.redis.conftest import BOOM, QUEUE, done

from ackline.core.clock import ManualClock
from ackline.core.config import DEFAULTS, QueueSettings
from ackline.core.job import Draft, Options, QueueKey, Record, State
from ackline.core.lifecycle import Edit, Transition, cancel, edit, fail, release, snooze
from ackline.stores.contract import ClaimRequest, Filter, Store
from ackline.stores.memory import MemoryStore

KINDS = [f"kind {n}" for n in range(300)]
GROUPS = [f"group {n}" for n in range(200)]
QUEUED = Filter(states=frozenset({State.QUEUED}))


class Pair:
    """Two stores that get the same calls and must give the same answers."""

    def __init__(self, store: Store, clock: ManualClock, seed: int) -> None:
        self.stores: list[Store] = [store, MemoryStore(clock)]
        self.stores[1].open()
        self.clock = clock
        self.chance = random.Random(seed)
        self.held: list[tuple[Record, Record]] = []
        self._next = 0

    def both(self, call: Callable[[Store], object]) -> None:
        one, other = map(call, self.stores)
        assert one == other

    def enqueue(self) -> None:
        chance, options = self.chance, Options()
        batch = []
        for _ in range(chance.choice((1, 5, 40))):
            if chance.random() < 0.5:
                options = Options(group=chance.choice(GROUPS))
            elif chance.random() < 0.5:
                options = Options()
            delay = chance.choice((0.0, 0.0, 0.0, 2.0, 5.0))
            kind, priority = chance.choice(KINDS), chance.choice((0, 4, 5, 5, 5, 9))
            batch.append(Draft(str(self._next), kind, b"", priority, delay, None, options))
            self._next += 1
        self.both(lambda store: store.enqueue(QUEUE, batch))

    def claim(self) -> None:
        chance = self.chance
        some = frozenset(chance.sample(KINDS, chance.choice((1, 20, 150))))
        request = ClaimRequest(
            worker="w",
            limit=chance.choice((1, 3, 17, 60)),
            lease=30.0,
            kinds=chance.choice((None, None, some)),
        )
        one, other = (store.claim(QUEUE, request).jobs for store in self.stores)
        assert [job.id for job in one] == [job.id for job in other]
        self.held += zip(one, other, strict=True)

    def settle(self) -> None:
        chance = self.chance
        chance.shuffle(self.held)
        settled = [self.held.pop() for _ in range(min(len(self.held), chance.choice((1, 10, 50))))]
        ends = [chance.choice((done, back, again, later)) for _ in settled]
        answers = [
            store.apply(QUEUE, [end(pair[n]) for end, pair in zip(ends, settled, strict=True)])
            for n, store in enumerate(self.stores)
        ]
        assert answers[0] == answers[1]

    def operate(self) -> None:
        id = str(self.chance.randrange(self._next + 1))
        step = self.chance.choice(
            (
                cancel(id, DEFAULTS),
                edit(id, Edit(priority=self.chance.randrange(10))),
                edit(id, Edit(delay=1.0)),
            )
        )
        self.both(lambda store: store.apply(QUEUE, [step]))

    def change_settings(self) -> None:
        settings = QueueSettings(group_limit=self.chance.choice((1, 2, 5)), ageing=60.0)
        self.both(lambda store: store.configure(QUEUE, settings))

    def pass_time(self) -> None:
        self.clock.advance(self.chance.choice((0.0, 0.5, 3.0)))

    def compare_queries(self) -> None:
        pages = [store.page(QUEUE, QUEUED, None, 1000).jobs for store in self.stores]
        assert [job.id for job in pages[0]] == [job.id for job in pages[1]]


def again(job: Record) -> Transition:
    return fail(job, BOOM, DEFAULTS, random.Random(0), 1.0)


def back(job: Record) -> Transition:
    return release(job, DEFAULTS)


def later(job: Record) -> Transition:
    return snooze(job, 2.0, DEFAULTS)


@pytest.mark.parametrize("seed", range(6))
def test_claims_come_in_the_same_order(timed, clock, seed):
    pair = Pair(timed, clock, seed)
    acts = [pair.enqueue, pair.claim, pair.settle, pair.pass_time, pair.operate]
    for _ in range(120):
        pair.chance.choice(acts)()
    pair.change_settings()
    for _ in range(40):
        pair.chance.choice(acts)()
    pair.compare_queries()


def test_lists_of_kinds_and_groups_never_collide(timed):
    """Rule 11: names that compare_queries like the key of another list."""
    kinds = ["mail", "a:b", "1:g:mail", "b"]
    groups = ["g", "1:g:mail", "1:g:a:b", "1:g", "g:1", "3:a:b", "a", "a:b"]
    batch = [
        Draft(f"{group}/{kind}/{n}", kind, b"", options=Options(group=group))
        for group in groups
        for kind in kinds
        for n in range(2)
    ]
    timed.enqueue(QUEUE, batch)
    served = []
    for _ in range(2 * len(kinds)):
        request = ClaimRequest(worker="w", limit=1000, lease=30.0)
        jobs = timed.claim(QUEUE, request).jobs
        assert len({job.options.group for job in jobs}) == len(jobs) == len(groups)
        timed.apply(QUEUE, [done(job) for job in jobs])
        served += [job.id for job in jobs]

    assert sorted(served) == sorted(draft.id for draft in batch)


@pytest.mark.parametrize("kinds", [2, 10])
def test_a_claim_of_many_kinds_takes_little_longer(store, client, kinds):
    """All other clients wait while a script runs."""
    alike = claim_time(store, client, ["mail"])

    mixed = claim_time(store, client, [f"kind {n}" for n in range(kinds)])

    assert mixed < 6 * alike + 0.01


def claim_time(store, client, kinds: list[str]) -> float:
    """Seconds of processor time that the server needs for a claim of 1,000 jobs, at best."""
    queue = QueueKey("default", f"{len(kinds)} kinds")
    count = len(kinds)
    store.enqueue(queue, [Draft(str(n), kinds[n % count], b"") for n in range(6000)])
    times = []
    for _ in range(3):
        before = processor_time(client)
        store.claim(queue, ClaimRequest(worker="w", limit=1000, lease=30.0))
        times.append(processor_time(client) - before)
    return min(times)


def processor_time(client) -> float:
    """Seconds that the thread which runs scripts has used so far: not those in which it waited."""
    stats = client.info("cpu")
    return float(stats["used_cpu_user_main_thread"] + stats["used_cpu_sys_main_thread"])
