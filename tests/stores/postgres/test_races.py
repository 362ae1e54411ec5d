"""Many threads do everything to the same few jobs; the tables stay consistent."""

import contextlib
import random
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from tests.harness.servers.postgres import PostgresServer
from tests.stores.postgres.conftest import OpenStore

from ackline.core.config import DEFAULTS, QueueSettings
from ackline.core.errors import StoreFull
from ackline.core.job import Draft, Options, QueueKey, Record, State
from ackline.core.lifecycle import (
    Edit,
    cancel,
    complete,
    edit,
    expire,
    move,
    redrive,
    request_cancel,
)
from ackline.stores.contract import ClaimRequest, Filter, Heartbeat, LeaseExtension
from ackline.stores.postgres import PostgresStore
from ackline.stores.postgres.engine import Engine
from ackline.stores.postgres.io.transaction import Transaction
from ackline.testing.fenced_transitions import fenced_transitions
from ackline.testing.journal_checker import check_journal

QUEUES = (QueueKey("default", "one"), QueueKey("default", "two"))
IDS = [f"job {n}" for n in range(12)]
SECONDS = 3.0

TABLES = """
SELECT j.num, (SELECT count(*) FROM {0}.ready WHERE job = j.num)
            + (SELECT count(*) FROM {0}.parked WHERE job = j.num)
            + (SELECT count(*) FROM {0}.inactive WHERE job = j.num)
            + (SELECT count(*) FROM {0}.lease, unnest(jobs) open WHERE open = j.num)
FROM {0}.job j
"""
ORPHANS = """
SELECT count(*) FROM (
    SELECT job FROM {0}.ready UNION ALL SELECT job FROM {0}.parked
    UNION ALL SELECT job FROM {0}.inactive UNION ALL SELECT unnest(jobs) FROM {0}.lease
) h WHERE NOT EXISTS (SELECT FROM {0}.job j WHERE j.num = h.job)
"""
GROUPS = """
SELECT g.queue, g.name, g.running, (
    SELECT count(*) FROM {0}.lease l, unnest(l.jobs) open JOIN {0}.job j ON j.num = open
    WHERE l.queue = g.queue AND j.job_group = g.name
) FROM {0}.job_group g
"""


STEPS = [*fenced_transitions(lambda _: DEFAULTS, snoozed=0.01, extended=30.0).values()]


class RandomCaller:
    """One thread that does something at random, again and again."""

    def __init__(self, store: PostgresStore, seed: int) -> None:
        self.store = store
        self.random = random.Random(seed)
        self.held: list[tuple[QueueKey, Record]] = []

    def run_all(self) -> None:
        acts = [self.enqueue, self.claim, self.claim, self.settle, self.settle, self.operate]
        acts += [self.beat, self.sweep, self.purge, self.prune, self.configure]
        weights = [6, 6, 6, 6, 6, 6, 2, 2, 1, 1, 1]
        self.random.choices(acts, weights)[0]()

    def queue(self) -> QueueKey:
        return self.random.choice(QUEUES)

    def enqueue(self) -> None:
        group = self.random.choice([None, None, "g", "h"])
        drafts = [
            Draft(
                id,
                self.random.choice("xy"),
                b"1",
                self.random.choice([5, 0, 9]),
                self.random.choice([0.0, 0.0, 0.01]),
                None,
                Options(group=group, max_attempts=3),
                self.random.random() < 0.5,
            )
            for id in self.random.sample(IDS, 3)
        ]
        with contextlib.suppress(StoreFull):
            self.store.enqueue(self.queue(), drafts)

    def claim(self) -> None:
        queue = self.queue()
        mine = [job for owner, job in self.held if owner == queue][:2]
        steps = [complete(job, b"1", DEFAULTS) for job in mine]
        kinds = self.random.choice([None, frozenset("x")])
        lease = self.random.choice([0.01, 30.0])
        request = ClaimRequest(worker="w", limit=3, lease=lease, kinds=kinds)
        claimed = self.store.claim(queue, request, steps)
        self.held = [(queue, job) for job in claimed.jobs] + self.held[:8]

    def settle(self) -> None:
        if not self.held:
            return
        queue, job = self.random.choice(self.held)
        self.store.apply(queue, [step(job) for step in self.random.choices(STEPS, k=2)])

    def operate(self) -> None:
        steps = [
            cancel(self.random.choice(IDS), DEFAULTS),
            request_cancel(self.random.choice(IDS)),
            redrive(self.random.choice(IDS)),
            edit(self.random.choice(IDS), Edit(priority=9, payload=b"2")),
            edit(self.random.choice(IDS), Edit(delay=0.01)),
            move(self.random.choice(IDS), self.queue()),
        ]
        self.store.apply(self.queue(), self.random.sample(steps, 3))

    def beat(self) -> None:
        beat = Heartbeat(
            id="w", host="h", pid=1, started_at=0.0, concurrency=1, kinds=None, ttl=9.0
        )
        holds = [LeaseExtension(job.id, job.token, 30.0) for _, job in self.held]
        self.store.heartbeat(self.queue(), beat, holds)

    def sweep(self) -> None:
        queue = self.queue()
        lapsed = self.store.leases(queue)
        self.store.apply(queue, [expire(job, DEFAULTS) for job in lapsed])

    def purge(self) -> None:
        self.store.purge(self.queue(), Filter(ids=frozenset(self.random.sample(IDS, 2))), 5)

    def prune(self) -> None:
        self.store.prune(self.queue(), 5)

    def configure(self) -> None:
        limit = self.random.choice([1, 2])
        most = self.random.choice([None, 10])
        self.store.configure(self.queue(), QueueSettings(group_limit=limit, max_jobs=most))


@pytest.mark.parametrize("seed", [5, 7])
def test_the_tables_stay_consistent_under_concurrency(
    open_store: OpenStore, server: PostgresServer, schema: str, seed: int
) -> None:
    stores = [open_store(), open_store()]
    until = time.monotonic() + SECONDS
    errors: list[BaseException] = []

    def run(number: int) -> None:
        player = RandomCaller(stores[number % 2], seed * 100 + number)
        try:
            while time.monotonic() < until and not errors:
                player.run_all()
        except BaseException as error:
            errors.append(error)
            raise

    threads = [threading.Thread(target=run, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []
    with server.connect() as connection:
        require_consistent_tables(connection, schema)
    require_consistent_counts(stores[0])


def test_a_deadlock_is_retried(engine: Engine) -> None:
    both_have_one, tries = threading.Barrier(2), Counter[int]()

    def lock(first: int, second: int) -> None:
        def run(tx: Transaction) -> None:
            tries[first] += 1
            tx.rows("lock_capacity", {"queue": first})
            if tries[first] == 1:
                both_have_one.wait(10)
            tx.rows("lock_capacity", {"queue": second})

        engine.write(run)

    with ThreadPoolExecutor(2) as threads:
        for done in [threads.submit(lock, 1, 2), threads.submit(lock, 2, 1)]:
            done.result()

    assert tries.total() == 3


def require_consistent_tables(
    connection: psycopg.Connection[tuple[object, ...]], schema: str
) -> None:
    """Every job has one state row, every state row a job, and every group counts its leases."""
    quoted = f'"{schema}"'

    def rows(query: str) -> list[tuple[object, ...]]:
        return connection.execute(query.format(quoted).encode()).fetchall()

    assert [row for row in rows(TABLES) if row[1] != 1] == []
    assert rows(ORPHANS) == [(0,)]
    assert [row for row in rows(GROUPS) if row[2] != row[3]] == []


def require_consistent_counts(store: PostgresStore) -> None:
    """The counts are right, and the journal has only legal transitions."""
    for queue in QUEUES:
        [info] = store.describe("default", queue.name)
        listed = store.page(queue, Filter(), None, 1000).jobs
        for state in State:
            if not state.terminal:
                assert info.counts[state] == sum(job.state is state for job in listed)
    check_journal(store.events(None, None, 1_000_000))
