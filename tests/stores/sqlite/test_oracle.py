"""Random lives of random jobs: SQLite must answer as memory does, verb by verb."""

from __future__ import annotations

import random

import pytest

from ackline import lifecycle
from ackline.clock import ManualClock
from ackline.config import DEFAULTS, Policy, QueueSettings, resolve
from ackline.errors import StoreFull
from ackline.job import NO_OPTIONS, Draft, Failure, Options, QueueKey, Record, State
from ackline.lifecycle import Edit, Transition
from ackline.stores.base import ClaimRequest, Filter, Hold, KeyWrite, Store, WorkerBeat
from ackline.stores.memory import MemoryStore
from ackline.stores.sqlite import SqliteStore

QUEUES = [QueueKey("default", "a"), QueueKey("default", "b"), QueueKey("other", "a")]
IDS = [f"id{n}" for n in range(12)] + ["nul\0id", "nul", "é:💌"]
KINDS = ["mail", "image", "nul\0kind"]
GROUPS = [None, None, "g1", "g2"]


class Pair:
    """Two stores that live through the same."""

    def __init__(self, seed: int, path: str) -> None:
        self.random = random.Random(seed)
        self.clock = ManualClock()
        self.stores: list[Store] = [
            MemoryStore(self.clock),
            SqliteStore(path, "normal", self.clock),
        ]
        self.seen: list[Record] = []
        self.sent: list[Transition] = []
        for store in self.stores:
            store.open()

    def close(self) -> None:
        for store in self.stores:
            store.close()

    def both(self, verb, *args, **named):
        answers = []
        for store in self.stores:
            try:
                answers.append(getattr(store, verb)(*args, **named))
            except StoreFull as error:
                answers.append(str(error))
        if verb == "events":
            answers = [_without_order_of_purges(events) for events in answers]
        assert answers[1] == answers[0], verb
        return answers[0]

    # --- acts ---

    def step(self) -> None:
        acts = [self.enqueue] * 4 + [self.claim] * 4 + [self.settle] * 5 + [self.operate] * 3
        acts += [self.pass_time] * 2 + [self.beat, self.maintain, self.configure, self.keys]
        acts += [self.look] * 2 + [self.purge]
        self.random.choice(acts)()

    def queue(self) -> QueueKey:
        return self.random.choices(QUEUES, [8, 2, 1])[0]

    def enqueue(self) -> None:
        self.both("enqueue", self.queue(), [self.draft() for _ in range(self.random.randint(0, 6))])

    def draft(self) -> Draft:
        pick = self.random.choice
        options = NO_OPTIONS
        if pick([0, 1]):
            options = Options(
                group=pick(GROUPS),
                lease=pick([None, 5.0, 77.7]),
                max_attempts=pick([None, 1, 2]),
                result_ttl=pick([None, 0.0, 20.0]),
                keys_if_undelivered=pick([(), (("lost", "x"), ("lost", "é\0"))]),
                headers=pick([{}, {"a": "b"}]),
            )
        run_at = pick([None, None, self.clock.now() + pick([-5.0, 3.0])])
        return Draft(
            pick(IDS),
            pick(KINDS),
            pick([b"", b"\0\xff", b'{"x":1}']),
            pick([0, 5, 5, 5, 9]),
            pick([0.0, 0.0, 0.0, 2.5]),
            run_at,
            options,
            pick([True, False]),
        )

    def claim(self) -> None:
        queue, pick = self.queue(), self.random.choice
        request = ClaimRequest(
            worker=pick(["w1", "w2"]),
            limit=pick([0, 1, 2, 10]),
            lease=pick([3.0, 10.1]),
            kinds=pick([None, None, frozenset(["mail"]), frozenset(["image", "absent"])]),
        )
        claimed = self.both("claim", queue, request, self.some_transitions())
        self.seen = (self.seen + claimed.jobs)[-40:]
        if claimed.lapsed and pick([0, 1]):
            self.apply(queue, [lifecycle.expire(job, DEFAULTS) for job in claimed.lapsed])

    def apply(self, queue: QueueKey, transitions: list[Transition]) -> None:
        self.sent = (self.sent + transitions)[-40:]
        self.both("apply", queue, transitions)

    def settle(self) -> None:
        self.apply(self.queue(), self.some_transitions())

    def some_transitions(self) -> list[Transition]:
        count = self.random.choice([0, 1, 1, 2, 5])
        made = [self.transition() for _ in range(count)] if self.seen else []
        again = self.random.choices(self.sent, k=1) if self.sent and count == 2 else []
        return made + again

    def transition(self) -> Transition:
        job, pick = self.random.choice(self.seen[-8:]), self.random.choice
        policy = resolve(job, QueueSettings(policy=Policy(result_ttl=pick([0.0, 5.0, 50.0]))))
        failure = Failure(act="fail", attempt=1, type="E", message="m" * pick([1, 300]))
        return pick(
            [
                lambda: lifecycle.complete(job, pick([None, b"r", b""]), policy),
                lambda: lifecycle.complete(job, b"r", policy),
                lambda: lifecycle.fail(job, failure, policy, self.random),
                lambda: lifecycle.snooze(job, 4.0, policy),
                lambda: lifecycle.release(job, policy, "bye"),
                lambda: lifecycle.stop(job, "no", policy),
                lambda: lifecycle.extend(job, 9.0),
                lambda: lifecycle.progress(job, b"50"),
                lambda: lifecycle.expire(job, policy),
            ]
        )()

    def operate(self) -> None:
        pick = self.random.choice
        edit = Edit(
            pick([None, b"new"]), pick([None, 1, 8]), pick([None, 0.0, 6.0]), pick([None, 3.0])
        )
        choices = [
            lambda id: lifecycle.cancel(id, DEFAULTS, "me"),
            lambda id: lifecycle.request_cancel(id, "me"),
            lambda id: lifecycle.redrive(id, pick([0.0, 4.0])),
            lambda id: lifecycle.edit(id, edit),
            lambda id: lifecycle.move(id, pick(QUEUES[:2])),
        ]
        count = self.random.randint(1, 4)
        self.apply(self.queue(), [pick(choices)(pick(IDS)) for _ in range(count)])

    def pass_time(self) -> None:
        self.clock.advance(self.random.choice([0.5, 1.7, 3.0, 12.3, 60.0]))

    def beat(self) -> None:
        pick = self.random.choice
        beat = WorkerBeat(
            id=pick(["w1", "w2"]),
            host="h",
            pid=1,
            started_at=1.0,
            concurrency=2,
            kinds=pick([None, ("mail",)]),
            ttl=pick([0.0, 30.0]),
        )
        holds = [Hold(job.id, job.token, 6.0) for job in self.seen[-5:]]
        self.both("heartbeat", self.queue(), beat, holds)

    def maintain(self) -> None:
        self.both("promote", self.queue(), self.random.choice([1, 100]))
        self.both("prune", self.queue(), self.random.choice([1, 100]))

    def configure(self) -> None:
        pick = self.random.choice
        settings = QueueSettings(
            paused=pick([True, False, False, False]),
            ageing=pick([60.0, 0.1]),
            group_limit=pick([1, 2]),
            max_jobs=pick([None, None, 8]),
            max_journal=pick([1_000_000, 5]),
            keep_journal=pick([1000.0, 10.0]),
        )
        self.both("configure", self.queue(), settings, "me")

    def keys(self) -> None:
        pick = self.random.choice
        names = [("a",), ("a", "b"), ("a\0", "b"), ("a", ""), ("lost", "x")]
        writes = [
            KeyWrite(key=pick(names), value=pick([None, b"v"]), version=pick([None, 0, 1]))
            for _ in range(2)
        ]
        self.both("write_keys", "default", writes)

    def purge(self) -> None:
        states = frozenset(self.random.sample(list(State), 2))
        if self.random.random() < 0.3:
            self.both("purge", self.queue(), Filter(states=states), 1000, "me")

    # --- what all of it comes to ---

    def look(self) -> None:
        queue, pick = self.queue(), self.random.choice
        which = Filter(
            states=frozenset(self.random.sample(list(State), pick([2, 7]))),
            kinds=pick([None, frozenset(["mail", "image"])]),
            ids=pick([None, None, frozenset(IDS[:5])]),
            created_after=pick([None, self.clock.now() - 10]),
            created_before=pick([None, None, self.clock.now() - 5]),
            text=pick([None, "x"]),
        )
        cursor, limit = None, pick([1, 3, 100])
        while True:
            page = self.both("page", queue, which, cursor, limit)
            cursor = page.cursor
            if cursor is None:
                break
        self.both("leases", queue)
        self.both("leases", queue, worker="w1")

    def look_at_all(self) -> None:
        for queue in QUEUES:
            self.both("get", queue, IDS)
            self.both("workers", [queue])
            self.both("events", queue, None, 10_000)
        self.both("describe", None)
        self.both("events", None, None, 10_000)
        self.both("read_keys", "default", (), 100)
        self.both("read_keys", "default", ("a",), 100)


def _without_order_of_purges(events):
    """No rule says in which order one purge takes its jobs."""
    purges = sorted(event.id for event in events if event.act == "purge")
    return [event for event in events if event.act != "purge"], purges


@pytest.mark.parametrize("seed", range(12))
def test_answers_as_memory_does(seed, tmp_path):
    pair = Pair(seed, str(tmp_path / "jobs.db"))
    try:
        for turn in range(150):
            pair.step()
            if turn % 5 == 0:
                pair.look_at_all()
        pair.look_at_all()
    finally:
        pair.close()
