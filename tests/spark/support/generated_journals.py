"""Long journals, made by the real lifecycle; and faults put into them, each of which is known.

A shard is a queue in a store of its own, with another beside it to which some jobs are moved. So a
journal of any length is made piece by piece.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from ackline.core import lifecycle
from ackline.core.clock import ManualClock
from ackline.core.config import DEFAULTS
from ackline.core.events import Act, Event, read_cursor
from ackline.core.job import Record, State
from ackline.core.lifecycle import Transition
from ackline.queue import Queue
from ackline.queue.settle import failure_from
from ackline.queues import Queues
from ackline.stores.contract import Filter
from ackline.stores.memory import MemoryStore

ATTEMPTS = 3
RESULTS_KEPT = DEFAULTS.result_ttl
START = 1_700_000_000.0
BATCH = 500
ERRORS = ("Timeout: no answer from host {}", "ValueError: '{}' is no address", "KeyError: {}")


class Shard(msgspec.Struct, frozen=True):
    """The journals of a queue and of the one beside it, and the jobs that they leave."""

    queue: str
    beside: str
    events: list[Event]
    jobs: dict[str, list[Record]]
    """By their queue."""


def live(number: int, jobs: int) -> Shard:
    """Let jobs live in one shard: all that can happen to them does, by chance but repeatably."""
    clock = ManualClock(START)
    store = MemoryStore(clock)
    store.open()
    queue, beside = live_in(Queues(store), clock, number, jobs)
    kept = {
        each.name: store.page(each.key, Filter(), None, 10 * jobs).jobs for each in (queue, beside)
    }
    events = [*events_of(queue), *events_of(beside)]
    events.sort(key=lambda event: read_cursor(event.cursor))
    return Shard(queue.name, beside.name, events, kept)


def names_of(number: int) -> tuple[str, str]:
    """The queue of a shard and the one beside it."""
    return f"shard-{number:04d}", f"shard-{number:04d}-beside"


def live_in(
    queues: Queues, clock: ManualClock, number: int, jobs: int
) -> tuple[Queue[Any, Any], Queue[Any, Any]]:
    """The same in any store that goes by this clock; answers with the queue and the one beside."""
    choose = random.Random(number)
    queue, beside = (queues[name] for name in names_of(number))
    for each in (queue, beside):
        each.configure(max_journal=1_000_000_000)
    clock.advance(600.0)
    for first in range(0, jobs, BATCH):
        size = min(BATCH, jobs - first)
        for kind in ("mail", "bill"):
            some = range(first, first + size)
            mine = [n for n in some if (n % 3 == 0) == (kind == "bill")]
            queue.enqueue_many(mine, kind=kind, priority=choose.randrange(10), backoff=[1.0, 5.0])
        _work(queue, choose, clock)
        if choose.random() < 0.3:
            _move(queue, beside, choose)
    for _ in range(6):
        _work(queue, choose, clock)
        _move(queue, beside, choose)
    queue.enqueue_many(range(20), kind="mail")
    return queue, beside


def _move(queue: Queue[Any, Any], beside: Queue[Any, Any], choose: random.Random) -> None:
    """Some jobs go to the other queue, and some that went before come back."""
    # One state at a time: to look for jobs of a state takes long in a store of many.
    which = Filter(states=frozenset({choose.choice([State.QUEUED, State.FAILING, State.FAILED])}))
    for here, there, few in ((beside, queue, 1), (queue, beside, 6)):
        for record in here.store.page(here.key, which, None, few).jobs:
            here.move(record.id, there.name)


def events_of(queue: Queue[Any, Any]) -> Iterator[Event]:
    """All events of a queue, however many."""
    after = None
    while page := queue.store.events(queue.key, after, 50_000):
        yield from page
        after = page[-1].cursor


def _work(queue: Queue[Any, Any], choose: random.Random, clock: ManualClock) -> None:
    """One round: what is claimed ends as it may, and some workers are lost."""
    worker = f"worker-{choose.randrange(8)}"
    clock.advance(choose.expovariate(1 / 5))
    request = queue.claim_request(BATCH, 30.0, None, worker)
    claimed = queue.claim_records(request).jobs
    steps: list[Transition] = []
    for job in claimed:
        step = _end(queue, job, choose)
        if step is not None:
            steps.append(step)
        if len(steps) >= 50:
            clock.advance(choose.expovariate(1 / 0.5))
            queue.apply(steps)
            steps.clear()
    queue.apply(steps)
    for record in queue.store.page(
        queue.key, Filter(states=frozenset({State.FAILED})), None, 2
    ).jobs:
        if choose.random() < 0.3:
            queue.redrive(record.id)
    clock.advance(31.0)


def _end(queue: Queue[Any, Any], job: Record, choose: random.Random) -> Transition | None:
    chance, policy = choose.random(), queue.policies.of(job)
    if chance < 0.86:
        return lifecycle.complete(job, b"1", policy)
    if chance < 0.92:
        error = choose.choice(ERRORS).format(choose.randrange(10_000))
        return lifecycle.fail(job, failure_from(job, error), policy, queue.random)
    if chance < 0.94:
        return lifecycle.snooze(job, 2.0, policy)
    if chance < 0.96:
        return lifecycle.release(job, policy)
    if chance < 0.97:
        return lifecycle.cancel_running(job, "not wanted", policy)
    return None  # its worker is lost


# --- faults ---

Found = tuple[str, str]
"""A finding of the audit, and the job."""

Step = tuple[Act, State | None, State | None, int, int]
"""What an entry tells: the act, from, to, attempt and token."""

HANDED_OUT = (Act.CLAIM, State.QUEUED, State.PROCESSING)
LAPSED = (Act.EXPIRE, State.PROCESSING, State.QUEUED)

LEASES: dict[str, tuple[Act, Callable[[Event], dict[str, Any]]]] = {
    "stale": (Act.COMPLETE, lambda event: {"token": event.token - 1, "worker": "stale"}),
    "jump": (Act.CLAIM, lambda event: {"attempt": event.attempt + 7}),
    "kind": (Act.COMPLETE, lambda _: {"kind": "another"}),
}
"""Entries about leases, and what is wrong with them."""

SINGLE = ("hidden", "unclaimed", "wrong", "undone", "twice", "often")

FORGOTTEN: dict[str, Act | None] = {"forgotten": None, "pruned too early": Act.PRUNE}
"""Completed jobs that are run again while their result must be kept, and how they went."""


def spoil(shard: Shard, each: int, seed: int) -> tuple[Shard, set[Found]]:
    """A shard with so many faults of each sort, each in another job; and what must be found."""
    choose = random.Random(seed)
    last = {event.id: event for event in shard.events if event.id}
    moved = {event.id for event in shard.events if event.act is Act.MOVE}
    # Only jobs that are kept: of one that is past its retention there is nothing to compare.
    kept = [job for job in shard.jobs[shard.queue] if job.id not in moved]
    done = [job.id for job in kept if last[job.id].act is Act.COMPLETE]
    waiting = [job.id for job in kept if not job.state.terminal]
    choose.shuffle(done)
    dead = [job.id for job in kept if job.state in (State.FAILED, State.CANCELLED)]
    lost = {id for ids in (waiting, dead) for id in choose.sample(ids, min(each, len(ids)))}
    recent = [id for id in done if last[id].at > shard.events[-1].at - RESULTS_KEPT / 2]
    lost |= set(recent[:each])
    done = [id for id in done if id not in lost]
    sorts: dict[str, set[str]] = {}
    for name in (*SINGLE, *LEASES, "same token", *FORGOTTEN):
        sorts[name] = {done.pop() for _ in range(each)}
    events = [event for event in map(_spoiler(sorts), shard.events) if event is not None]
    end = _after(shard.events)
    for id in sorts["twice"]:
        events.append(msgspec.structs.replace(last[id], cursor=next(end)))
    for id in sorts["often"]:
        events += _too_often(last[id], end)
    for id in sorts["same token"]:
        events += _again(last[id], end, [(*HANDED_OUT, 1, last[id].token)])
    for name, farewell in FORGOTTEN.items():
        for id in sorts[name]:
            events += _again(last[id], end, [(*HANDED_OUT, 1, last[id].token + 1)], farewell)
    jobs = {shard.queue: [job for job in shard.jobs[shard.queue] if job.id not in lost]}
    whole = Shard(shard.queue, shard.beside, events, shard.jobs | jobs)
    spoilt, astray = _lead_astray(whole, each, choose)
    return spoilt, _expected(sorts, lost) | astray


def _lead_astray(shard: Shard, each: int, choose: random.Random) -> tuple[Shard, set[Found]]:
    """Some jobs vanish on their way to the queue beside, and some are in both queues then."""
    moves = Counter(event.id for event in shard.events if event.act is Act.MOVE)
    there = [job for job in shard.jobs[shard.beside] if moves[job.id] == 2]
    chosen = choose.sample(there, 2 * each)
    vanished, doubled = ({job.id for job in some} for some in (chosen[:each], chosen[each:]))

    def goes_astray(event: Event) -> bool:
        leaves = event.act is Act.MOVE and event.to is None
        comes = event.queue.name == shard.beside
        return (event.id in vanished and comes) or (event.id in doubled and leaves)

    events = [event for event in shard.events if not goes_astray(event)]
    jobs = {
        shard.queue: [*shard.jobs[shard.queue], *(job for job in there if job.id in doubled)],
        shard.beside: [job for job in shard.jobs[shard.beside] if job.id not in vanished],
    }
    found = {("moved_nowhere", id) for id in vanished}
    found |= {("moved_from_nowhere", id) for id in doubled}
    return Shard(shard.queue, shard.beside, events, jobs), found


def _expected(sorts: dict[str, set[str]], lost: set[str]) -> set[Found]:
    names = {
        "hidden": ["unheard_of"],
        "unclaimed": ["broken"],
        "wrong": ["illegal"],
        "undone": ["differs"],
        "twice": ["broken", "ended_twice"],
        "often": ["delivered_too_often"],
        "stale": ["stale_settle"],
        "jump": ["attempts_jump"],
        "kind": ["kind_changed"],
        "same token": ["token_not_growing"],
        **{name: ["broken"] for name in FORGOTTEN},
    }
    found = {(finding, id) for name, ids in sorts.items() for id in ids for finding in names[name]}
    return found | {("lost", id) for id in lost}


def _spoiler(sorts: dict[str, set[str]]) -> Callable[[Event], Event | None]:
    claimed: set[str] = set()

    def spoiled(event: Event) -> Event | None:
        if event.id in sorts["hidden"]:
            return None
        if event.id in sorts["unclaimed"] and event.act is Act.CLAIM and event.id not in claimed:
            claimed.add(event.id)
            return None
        for name, (act, change) in LEASES.items():
            if event.id in sorts[name] and event.act is act:
                return msgspec.structs.replace(event, **change(event))
        if event.act is not Act.COMPLETE:
            return event
        if event.id in sorts["wrong"]:
            return msgspec.structs.replace(event, act=Act.PROMOTE)
        return None if event.id in sorts["undone"] else event

    return spoiled


def _after(events: list[Event]) -> Iterator[str]:
    batch = int(events[-1].cursor.partition(".")[0])
    while True:
        batch += 1
        yield f"{batch}.1"


def _too_often(done: Event, cursors: Iterator[str]) -> Iterator[Event]:
    """A job that was purged, enqueued anew, and handed out once more than it may be."""
    steps: list[Step] = []
    for number in range(1, ATTEMPTS + 2):
        lease = number, done.token + number
        steps += [(*HANDED_OUT, *lease), (*LAPSED, *lease)]
    return _again(done, cursors, steps[:-1])


def _again(
    done: Event, cursors: Iterator[str], steps: list[Step], farewell: Act | None = Act.PURGE
) -> Iterator[Event]:
    """A job that has gone and was enqueued anew; after some steps it is completed once more."""
    *_, attempt, token = steps[-1]
    gone = [] if farewell is None else [(farewell, State.COMPLETED, None, done.attempt, 0)]
    life: list[Step] = [
        *gone,
        (Act.ENQUEUE, None, State.QUEUED, 0, 0),
        *steps,
        (Act.COMPLETE, State.PROCESSING, State.COMPLETED, attempt, token),
    ]
    for act, source, to, attempt, token in life:
        yield msgspec.structs.replace(
            done,
            act=act,
            source=source,
            to=to,
            attempt=attempt,
            token=token,
            cursor=next(cursors),
        )
