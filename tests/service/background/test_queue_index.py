"""The cost of maintenance depends on what happens, not on the number of queues."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from ackline.core.cron import Schedule
from ackline.core.job import State
from ackline.queues import Queues
from ackline.service import Settings, schedules
from ackline.service.auth.authenticator import authenticator_for
from ackline.service.auth.caller import Caller
from ackline.service.auth.permissions import Scope
from ackline.service.auth.principal import Principal
from ackline.service.background.loops import BackgroundLoops
from ackline.service.background.queue_index import QueueIndex
from ackline.service.events.journal import CallerJournal
from ackline.service.runtime import Runtime
from ackline.stores.contract import Store
from ackline.stores.memory import MemoryStore

VERBS = [name for name in vars(Store) if not name.startswith("_") and name != "capabilities"]


class Counting(MemoryStore):
    """Counts the calls of each method."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.calls: Counter[str] = Counter()

    def __getattribute__(self, name: str) -> Any:
        if name in VERBS:
            self.calls[name] += 1
        return super().__getattribute__(name)


@pytest.fixture
def store(clock):
    store = Counting(clock)
    store.open()
    return store


@pytest.fixture
def background(store):
    return BackgroundLoops(store, Settings(store="memory://", sweep_every=1.0))


def step(background: BackgroundLoops, *names: str) -> None:
    for loop in background.loops:
        if not names or loop.name in names:
            loop.step()


def calls_of_idle_steps(store: Counting, background: BackgroundLoops, queues: int) -> Counter[str]:
    """The calls of all loops but the pruner while nothing happens in this many queues."""
    for n in range(queues):
        Queues(store)[f"q{n}"].enqueue(1)
    often = ("queue discovery", "promoter", "sweeper", "dispatcher", "store monitor")
    step(background, *often)
    step(background, *often)
    store.calls.clear()
    step(background, *often)
    return Counter(store.calls)


def test_idle_queues_cost_no_more_the_more_there_are(store, background, monkeypatch):
    monkeypatch.setattr("ackline.service.background.queue_index.MAX_AGE", 3600.0)
    few = calls_of_idle_steps(store, background, 1)

    many = calls_of_idle_steps(store, background, 100)

    assert many == few
    assert not few["describe"]


def test_a_job_that_becomes_due_is_promoted_by_the_next_step(store, background, clock):
    queue = Queues(store)["email"]
    step(background)
    queue.enqueue(1, delay=10)
    step(background, "promoter")
    clock.advance(10)

    step(background, "promoter")

    assert queue.counts()[State.QUEUED] == 1


def test_an_expired_lease_is_recovered_by_the_next_step(store, background, clock):
    queue = Queues(store)["email"]
    step(background)
    queue.enqueue(1)
    queue.claim(1, lease=10)
    step(background, "sweeper")
    clock.advance(11)

    step(background, "sweeper")

    assert queue.counts()[State.PROCESSING] == 0


def test_changes_outside_the_journal_are_noticed(store, monkeypatch):
    index = QueueIndex(store, Settings(store="memory://"))
    assert index.queues() == ()
    cursor = store.info().cursor
    store.enqueue(Queues(store)["empty"].key, [])
    assert store.info().cursor == cursor
    assert index.queues() == ()

    monkeypatch.setattr("ackline.service.background.queue_index.MAX_AGE", 0.0)

    assert [queue.name for queue in index.queues()] == ["empty"]


def test_a_queue_stays_the_same_object(store):
    """Loops keep state by queue object."""
    index = QueueIndex(store, Settings(store="memory://"))
    Queues(store)["a"].enqueue(1)
    [first] = index.queues()
    Queues(store)["b"].enqueue(1)

    assert first in index.queues()
    assert index.queues(frozenset({State.PROCESSING})) == ()
    assert len(index.queues(frozenset({State.QUEUED, State.FAILED}))) == 2


def test_what_schedules_enqueue_is_counted(store, background, clock):
    queue = Queues(store)["email"]
    queue.enqueue(1, delay=3600)
    schedules.write(store, queue.key, Schedule("tick", "* * * * *"))
    step(background, "queue discovery")
    clock.advance(60)

    step(background, "queue discovery")

    assert background.loops[0].stats().done == {"fired": 1}


def test_an_idle_service_rarely_calls_the_store(store):
    """With 2,000 queues of three tenants, a hundred schedules, and fifty open dashboards."""
    for n in range(2000):
        Queues(store, f"t{n % 3}")[f"q{n}"].enqueue(1)
    for n in range(100):
        key = Queues(store, "t0")[f"q{3 * n}"].key
        schedules.write(store, key, Schedule("yearly", "0 0 1 1 *"))
    calls = asyncio.run(count_idle_calls(store, dashboards=50, seconds=2.0))

    assert not calls["page"]
    assert calls["workers"] <= 3 * 5, "at most twice a second for each tenant"
    # What tells an event stream of its tenant's queues is `describe`; the rest is shared.
    assert calls.total() - calls["describe"] <= 200


SCOPE: Any = {}


async def count_idle_calls(store: Counting, dashboards: int, seconds: float) -> Counter[str]:
    """The store calls while nothing happens, with dashboards that stream and poll."""
    settings = Settings(store="memory://")
    runtime = Runtime(settings, store, authenticator_for(settings, store))
    await runtime.open()

    async def never() -> Any:
        await asyncio.Event().wait()

    callers = [
        Caller(runtime, Principal(f"t{n % 3}", frozenset(Scope)), never, SCOPE)
        for n in range(dashboards)
    ]

    async def follow(caller: Caller) -> None:
        async for _ in CallerJournal(caller, None).follow(None):
            pass

    streams = [asyncio.ensure_future(follow(caller)) for caller in callers]
    for _ in range(2):
        await settled(store)
        before = Counter(store.calls)
        found = await asyncio.gather(
            *(runtime.overview.of(caller.tenant, caller.run_slow) for caller in callers)
        )
        assert {len(one.queues) for one in found} <= {666, 667}
    await asyncio.sleep(seconds)
    calls = store.calls - before
    runtime.drain()
    await asyncio.gather(*streams)
    await runtime.close()
    return calls


async def settled(store: Counting) -> None:
    """Wait until each queue was maintained once, as after every start."""
    calls = 0
    while store.calls["read_keys"] < 2000 or store.calls["read_keys"] > calls + 10:
        calls = store.calls["read_keys"]
        await asyncio.sleep(0.3)
