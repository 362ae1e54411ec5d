"""However full the tables are, every statement reads only what it needs, by an index.

In three situations: plans that were made while the tables were empty, tables with no or old
statistics, and tables with current ones.
"""

import contextlib
import itertools
from collections.abc import Callable, Generator, Sequence
from random import Random

import pytest
from tests.harness.servers.postgres import PostgresServer
from tests.stores.postgres.actions import finish, ids, put, take
from tests.stores.postgres.aged_tables import DONE, HELD, SCHEDULED, WAITING, fill
from tests.stores.postgres.query_plans import Plan, WatchedStore, watched

from ackline.core.config import DEFAULTS
from ackline.core.ids import new_id
from ackline.core.job import QueueKey, Record, State
from ackline.core.lifecycle import bury, cancel, complete, expire, fail, redrive
from ackline.stores.contract import ClaimRequest, Filter, Heartbeat, LeaseExtension, Store
from ackline.stores.postgres.io import connection_pool
from ackline.testing.conformance.driver import failure

QUEUE = QueueKey("default", "work")

LARGE = {"job", "ready", "parked", "inactive", "lease", "attempt", "progress", "journal"}
"""Tables that grow; the others have a handful of rows and may be read as a whole."""

BATCH = 100

ABOUT = {"sweep": HELD, "operate": 20}
"""How many jobs a call is about, if not a batch."""

PAGES = {"page": 80, "operate": 80}
"""Pages that a statement may read for each job, if not the usual number."""

FEW, USUAL_PAGES = 300, 30
"""Pages that are never too many; a claim may promote two jobs for each that it takes."""

Verb = Callable[[Store], object]


def claim(store: Store) -> list[Record]:
    jobs = take(store, QUEUE, BATCH)
    assert len(jobs) == BATCH
    return jobs


def settle(store: Store) -> None:
    assert all(verdict.applied for verdict in finish(store, QUEUE, *claim(store)))


def settle_and_claim(store: Store) -> None:
    done = [complete(job, b"1", DEFAULTS) for job in claim(store)]
    claimed = store.claim(QUEUE, ClaimRequest(worker="w", limit=BATCH, lease=30.0), done)
    assert len(claimed.jobs) == BATCH


def retry_and_bury(store: Store) -> None:
    jobs = claim(store)
    steps = [fail(job, failure(job), DEFAULTS, Random(0)) for job in jobs[::2]]
    steps += [bury(job, failure(job), DEFAULTS) for job in jobs[1::2]]
    assert all(verdict.applied for verdict in store.apply(QUEUE, steps))


def beat(store: Store) -> None:
    beat = Heartbeat(id="w", host="h", pid=1, started_at=0.0, concurrency=1, kinds=None, ttl=9.0)
    holds = [LeaseExtension(job.id, job.token, 60.0) for job in claim(store)]
    assert store.heartbeat(QUEUE, beat, holds).lost == []


def promote(store: Store) -> None:
    assert store.promote(QUEUE, BATCH) == BATCH


def sweep(store: Store) -> None:
    lapsed = store.leases(QUEUE, limit=HELD)
    assert len(lapsed) == HELD
    assert all(v.applied for v in store.apply(QUEUE, [expire(job, DEFAULTS) for job in lapsed]))


def prune(store: Store) -> None:
    assert store.prune(QUEUE, BATCH) == BATCH


def operate(store: Store) -> None:
    queued = ids(store.page(QUEUE, Filter(states=frozenset({State.QUEUED})), None, 10).jobs)
    failed = ids(store.page(QUEUE, Filter(states=frozenset({State.FAILED})), None, 10).jobs)
    steps = [cancel(id, DEFAULTS) for id in queued] + [redrive(id) for id in failed]
    assert all(verdict.applied for verdict in store.apply(QUEUE, steps))


def page(store: Store) -> None:
    for state, newest_first in itertools.product(State, (False, True)):
        which = Filter(states=frozenset({state}))
        first = store.page(QUEUE, which, None, BATCH, newest_first)
        if first.cursor is not None:
            assert store.page(QUEUE, which, first.cursor, BATCH, newest_first).jobs


def look_up(store: Store) -> None:
    names = [f"{name} {n}" for name in (WAITING, SCHEDULED, DONE) for n in (12_000, 15_000)]
    assert None not in store.get(QUEUE, names)


def read_journal(store: Store) -> None:
    cursor = store.events(QUEUE, None, 200)[-1].cursor
    assert len(store.events(QUEUE, cursor, BATCH)) == BATCH
    assert len(store.events(None, cursor, BATCH)) == BATCH


def enqueue(store: Store) -> None:
    put(store, QUEUE, *(new_id() for _ in range(BATCH)), assume_new=True)
    put(store, QUEUE, *(new_id() for _ in range(BATCH)))


def replace(store: Store) -> None:
    """A failed job is enqueued again."""
    which = Filter(states=frozenset({State.FAILED, State.CANCELLED}))
    put(store, QUEUE, *ids(store.page(QUEUE, which, None, BATCH).jobs))


VERBS: tuple[Verb, ...] = (
    promote, claim, settle, settle_and_claim, retry_and_bury, beat, sweep, prune, operate, page,
    look_up, read_journal, enqueue, replace,
)  # fmt: skip
"""First promote, because a claim promotes as well."""


def costly_plans(store: WatchedStore, situation: str, verbs: Sequence[Verb] = VERBS) -> list[str]:
    """Run calls; returns the plans that read a whole table, or too many pages."""
    wrong, said = [], []
    for verb in verbs:
        store.plans.clear()
        verb(store.store)
        assert store.plans, f"{verb.__name__} ran nothing"
        for plan in store.plans:
            said.append(f"{situation}, {verb.__name__}: {plan}")
            if is_costly(plan, verb.__name__):
                wrong.append(f"{said[-1]}\n    {sorted(plan.scans)}")
    print("\n".join(said))
    return wrong


def is_costly(plan: Plan, verb: str) -> bool:
    read_whole = {table for how, table in plan.scans if how == "Seq Scan"}
    most = FEW + ABOUT.get(verb, BATCH) * PAGES.get(verb, USUAL_PAGES)
    return bool(read_whole & LARGE) or plan.buffers > most


def prepare_when_empty(store: Store) -> None:
    """Run everything once with almost empty tables, so that all plans are cached."""
    put(store, QUEUE, *map(str, range(5 * BATCH)), assume_new=True)
    for verb in VERBS:
        # The jobs that it expects do not exist, and that does not matter.
        with contextlib.suppress(AssertionError, IndexError):
            verb(store)
    while store.purge(QUEUE, Filter(), 10_000):
        continue


def full_tables(
    server: PostgresServer, schema: str, count: int
) -> Generator[tuple[str, WatchedStore], None, None]:
    """A store for each of the situations."""
    url = f"{server.socket_url}&schema={schema}"
    with watched(url) as early, server.connect() as connection:
        # First, because it invalidates plans. Old statistics are worse than none.
        connection.execute("ANALYZE")
        prepare_when_empty(early.store)
        fill(connection, schema, count)
        yield "planned when empty", early
        with watched(url) as store:
            yield "by old statistics", store
        connection.execute("ANALYZE")
        with watched(url) as store:
            yield "by new statistics", store


@pytest.mark.parametrize(
    "count", [20_000, pytest.param(1_000_000, marks=pytest.mark.slow)], ids=["some", "a million"]
)
def test_every_statement_goes_by_an_index(server: PostgresServer, schema: str, count: int) -> None:
    wrong = [
        plan
        for situation, store in full_tables(server, schema, count)
        for plan in costly_plans(store, situation)
    ]

    assert wrong == []


def test_control_without_its_settings_a_session_reads_whole_tables(
    server: PostgresServer, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        connection_pool, "PLANNER_SETTINGS", {"plan_cache_mode": "force_generic_plan"}
    )
    situations = full_tables(server, schema, 2000)
    situation, store = next(situations)

    assert costly_plans(store, situation, [claim])
    situations.close()
