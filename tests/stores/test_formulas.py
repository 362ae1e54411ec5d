"""Formulas repeated in SQL and Lua give the same results as the lifecycle, for many values.

The memory store is left out: it uses the lifecycle itself.
"""

from __future__ import annotations

import itertools
import logging
import random
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ackline.core.clock import ManualClock
from ackline.core.config import DEFAULTS, QueueSettings
from ackline.core.events import Events
from ackline.core.job import Draft, Options, QueueKey, Record, State
from ackline.core.lifecycle import (
    Edit,
    Transition,
    cancel,
    cancel_running,
    complete,
    edit,
    extend,
    extended_deadline,
    fail,
    initial_state,
    keeps_id,
    may_extend,
    move,
    progress,
    rank,
    redrive,
    release,
    request_cancel,
    snooze,
)
from ackline.stores.contract import TOPICS, ClaimRequest, Filter, Heartbeat, LeaseExtension, Store
from ackline.stores.registry import store_from_url
from ackline.stores.shared.apply import topics_to_notify
from ackline.stores.shared.paging import decode_page_cursor
from ackline.stores.shared.retention import plan_trim
from ackline.testing.conformance import QueueDriver
from ackline.testing.conformance.driver import draft, failure, policy_of

KINDS = ("mail", "image")
LAST = "last"
"""A completed job, which is listed after the live ones."""
BEAT = Heartbeat(id="w1", host="h", pid=1, started_at=0.0, concurrency=1, kinds=None, ttl=15.0)


@pytest.fixture(params=["sqlite", "redis", "postgres"])
def store(
    request: pytest.FixtureRequest, clock: ManualClock, empty_store: Callable[[str], str]
) -> Iterator[Store]:
    opened = store_from_url(empty_store(request.param), clock)
    opened.open()
    yield opened
    opened.close()


@pytest.fixture
def driver(store: Store, clock: ManualClock) -> QueueDriver:
    driver = QueueDriver(store, clock, QueueKey("default", "work"))
    driver.complete(driver.enqueue_and_claim(LAST, result_ttl=1e6))
    return driver


@pytest.fixture
def chance() -> random.Random:
    return random.Random(24)


def position_of(driver: QueueDriver, id: str) -> float:
    """A job's `at` in the list of its state, from the cursor of a page that ends with it."""
    which = Filter(ids=frozenset({id, LAST}))
    position = decode_page_cursor(driver.store.page(driver.queue, which, None, 1).cursor, False)
    assert position is not None, f"{id} is not there"
    return position[1]


def some_time(driver: QueueDriver, chance: random.Random) -> float:
    """Let some time pass; returns the time then."""
    driver.clock.advance(chance.uniform(0.001, 100.0))
    return driver.clock.now()


class TestRank:
    """`rank`: the position of a queued job, however it was queued."""

    @pytest.fixture(params=[0.1, 86_400.3])
    def ageing(self, request: pytest.FixtureRequest, driver: QueueDriver) -> float:
        ageing: float = request.param
        driver.configure(ageing=ageing)
        return ageing

    @pytest.mark.parametrize("assume_new", [False, True])
    def test_of_new_jobs(
        self, driver: QueueDriver, chance: random.Random, ageing: float, assume_new: bool
    ) -> None:
        for size in (1, 1, 1, 1, 1, 1, 2, 2, 5):
            now = some_time(driver, chance)
            given = [
                Draft(
                    f"{now}-{n}",
                    chance.choice(KINDS),
                    b"{}",
                    chance.randint(0, 9),
                    chance.choice((0.0, 0.0, 3.3)),
                    options=Options(group=chance.choice((None, "g"))),
                    assume_new=assume_new,
                )
                for n in range(size)
            ]
            driver.store.enqueue(driver.queue, given)
            for new in given:
                state, at = initial_state(new, now, ageing)
                assert (driver.state(new.id), position_of(driver, new.id)) == (state, at)

    def test_of_new_jobs_that_differ_in_nothing_but_their_ids(
        self, driver: QueueDriver, chance: random.Random, ageing: float
    ) -> None:
        for priority in range(10):
            now = some_time(driver, chance)
            ids = [f"{priority}-{n}" for n in range(3)]
            driver.enqueue_all(ids, priority=priority, assume_new=True)
            assert [position_of(driver, id) for id in ids] == [rank(now, priority, ageing)] * 3

    def test_of_promoted_jobs(
        self, driver: QueueDriver, chance: random.Random, ageing: float
    ) -> None:
        due = {}
        for priority in range(10):
            delay = chance.uniform(1.0, 50.0)
            due[f"j{priority}"] = some_time(driver, chance) + delay, priority
            driver.enqueue(f"j{priority}", priority=priority, delay=delay)
        driver.clock.advance(100.0)
        driver.store.promote(driver.queue, 1000)
        for id, (at, priority) in due.items():
            assert position_of(driver, id) == rank(at, priority, ageing)

    def test_of_jobs_that_are_queued_again(
        self, driver: QueueDriver, chance: random.Random, ageing: float
    ) -> None:
        for priority in range(10):
            began = some_time(driver, chance)
            job = driver.enqueue_and_claim(f"j{priority}", priority=priority, lease=1.0)
            assert driver.apply_one(extend(job, 1000.0)).applied
            some_time(driver, chance)
            driver.apply_one(release(job, policy_of(job)))
            assert position_of(driver, job.id) == rank(began, priority, ageing), "released"

            job = driver.claim_one()
            driver.clock.advance(chance.uniform(1.0, 2.0))
            driver.expire(job)
            assert position_of(driver, job.id) == rank(driver.clock.now(), priority, ageing), (
                "expired"
            )

            job = driver.claim_one()
            slept = some_time(driver, chance)
            driver.apply_one(snooze(job, 2.5, policy_of(job)))
            driver.clock.advance(chance.uniform(2.5, 5.0))
            driver.store.promote(driver.queue, 1000)
            assert position_of(driver, job.id) == rank(slept + 2.5, priority, ageing), "snoozed"
            driver.complete(driver.claim_one())

    def test_of_redriven_jobs(
        self, driver: QueueDriver, chance: random.Random, ageing: float
    ) -> None:
        for priority in range(10):
            driver.dead_letter(f"j{priority}")
            now = some_time(driver, chance)
            driver.apply_one(redrive(f"j{priority}", change=Edit(priority=priority)))
            assert position_of(driver, f"j{priority}") == rank(now, priority, ageing)
            driver.complete(driver.claim_one())

    def test_of_jobs_with_a_new_priority(
        self, driver: QueueDriver, chance: random.Random, ageing: float
    ) -> None:
        for before, after in itertools.product((0, 4, 9), repeat=2):
            id = f"{before}-{after}"
            some_time(driver, chance)
            driver.enqueue(id, priority=before)
            position = position_of(driver, id)
            some_time(driver, chance)
            driver.apply_one(edit(id, Edit(priority=after)))
            assert position_of(driver, id) == position + (before - after) * ageing


def bring(driver: QueueDriver, id: str, kind: str, state: State) -> None:
    """A job of this kind in this state."""
    delay = 50.0 if state is State.SCHEDULED else 0.0
    driver.enqueue(id, kind=kind, delay=delay, max_attempts=1 + (state is State.FAILING))
    if state not in (State.SCHEDULED, State.QUEUED):
        job = driver.claim_one()
        if state is State.COMPLETED:
            driver.complete(job)
        elif state in (State.FAILED, State.FAILING):
            driver.fail(job, delay=50.0)
        elif state is State.CANCELLED:
            driver.apply_one(cancel_running(job, "", policy_of(job)))
    assert driver.state(id) is state


@pytest.mark.parametrize("state", State)
def test_which_drafts_replace_a_job(driver: QueueDriver, state: State) -> None:
    """`keeps_id`: whether the job that has the id stays."""
    replaces = [None, frozenset[str](), frozenset({"mail"}), frozenset(KINDS)]
    cases = list(itertools.product(KINDS, replaces, (False, True)))
    for number, (kind, _, _) in enumerate(cases):
        bring(driver, str(number), kind, state)
    for number, (kind, replaced, assume_new) in enumerate(cases):
        new = draft(str(number), kind="other", replaces=replaced, assume_new=assume_new)
        [receipt] = driver.store.enqueue(driver.queue, [new])
        assert receipt.accepted is not keeps_id(new, state, kind)
        assert receipt.state is (State.QUEUED if receipt.accepted else state)


class TestLeases:
    def test_lease_of_the_job_before_that_of_its_kind_before_that_of_the_claim(
        self, driver: QueueDriver, chance: random.Random
    ) -> None:
        """`ClaimRequest.lease_of`: how long a job is leased."""
        for own, of_kind, again in itertools.product((None, 7.7), (None, 3.3), range(3)):
            now = some_time(driver, chance)
            request = ClaimRequest(
                worker="w1",
                limit=10,
                lease=chance.uniform(1.0, 100.0),
                lease_of_kind={} if of_kind is None else {"mail": of_kind},
            )
            ids = [f"{own}-{of_kind}-{again}-{kind}" for kind in KINDS]
            for id, kind in zip(ids, KINDS, strict=True):
                driver.enqueue(id, kind=kind, lease=own)
            jobs = driver.store.claim(driver.queue, request).jobs
            assert sorted(job.id for job in jobs) == sorted(ids)
            for job in jobs:
                expected = now + request.lease_of(job.kind, job.options)
                assert (job.deadline, driver.get(job.id).deadline) == (expected, expected)
                driver.complete(job)

    def test_which_leases_a_heartbeat_extends(
        self, driver: QueueDriver, chance: random.Random
    ) -> None:
        """`may_extend`: which leases the owner of a token may extend."""
        ids = list(map(str, range(60)))
        driver.enqueue_all(ids)
        jobs = driver.claim_jobs(60, lease=1.0)
        for job in jobs:
            if chance.random() < 0.5:
                assert driver.apply_one(extend(job, chance.uniform(1.0, 20.0))).applied
        for job in jobs[:10]:
            driver.complete(job)
        for job in jobs[10:20]:
            driver.apply_one(release(job, policy_of(job)))
        driver.claim_jobs(5, lease=5.0)
        driver.clock.advance(chance.uniform(2.0, 10.0))
        now = driver.clock.now()
        holds = [LeaseExtension(job.id, job.token + chance.choice((0, 0, 1)), 30.0) for job in jobs]
        kept = []
        for index, hold in enumerate(holds):
            found = driver.get(hold.id)
            deadline = found.deadline if found.state is State.PROCESSING else None
            if deadline is not None and may_extend(hold.token, found.token, deadline, now):
                kept.append(index)

        lost = driver.store.heartbeat(driver.queue, BEAT, holds).lost

        assert 0 < len(kept) < 40
        assert sorted(set(range(60)) - set(lost)) == kept

    def test_a_heartbeat_never_shortens_a_lease(
        self, driver: QueueDriver, chance: random.Random
    ) -> None:
        """`extended_deadline`: the deadline after a heartbeat."""
        driver.enqueue_all(map(str, range(40)))
        jobs = driver.claim_jobs(40, lease=50.0)
        deadlines = {job.id: job.deadline or 0.0 for job in jobs}
        for _ in range(4):
            driver.clock.advance(chance.uniform(0.001, 10.0))
            now = driver.clock.now()
            holds = [LeaseExtension(job.id, job.token, chance.uniform(0.01, 100.0)) for job in jobs]
            driver.store.heartbeat(driver.queue, BEAT, holds)
            for hold in holds:
                deadlines[hold.id] = extended_deadline(deadlines[hold.id], now, hold.seconds)
                assert driver.get(hold.id).deadline == deadlines[hold.id]


class TestTrimming:
    """`plan_trim`: which batches of the journal are dropped, and what no reader has read."""

    LOST = re.compile(r"(\d+) events were dropped")

    @pytest.mark.parametrize("seed", range(8))
    def test_a_journal_that_a_reader_reads(
        self, driver: QueueDriver, seed: int, caplog: pytest.LogCaptureFixture
    ) -> None:
        chance = random.Random(seed)
        number = itertools.count()
        for _ in range(chance.randint(3, 12)):
            driver.clock.advance(chance.uniform(0.1, 30.0))
            driver.enqueue_all(str(next(number)) for _ in range(chance.randint(1, 5)))
        most = chance.choice((0, 1000, chance.randint(0, len(driver.journal()))))
        settings = QueueSettings(max_journal=most, keep_journal=chance.uniform(0.0, 200.0))
        driver.store.configure(driver.queue, settings)
        events = Events.from_sequence(driver.store.events(driver.queue, None, 1000))
        reader = chance.choice((None, chance.choice(list(events)).cursor))
        batches = [(batch.number, batch.at, len(batch.entries)) for batch in events.batches]
        now = driver.clock.now()
        plan = plan_trim(batches, len(events), settings, 1, reader, now)

        with caplog.at_level(logging.WARNING, "ackline"):
            driver.store.prune(driver.queue, 100, reader)

        left = Events.from_sequence(driver.store.events(driver.queue, None, 1000)).batches
        assert [batch.number for batch in left] == [one[0] for one in batches[plan.batches :]]
        lost = [int(found) for found in self.LOST.findall(caplog.text)]
        assert lost == ([plan.unread] if plan.unread else [])


def waits(driver: QueueDriver) -> None:
    """Let a worker wait for jobs: otherwise a store need not notify of new ones."""
    driver.claim_jobs(10, kinds=["waited for"], worker="waiting")


def _leased(driver: QueueDriver, **more: Any) -> Record:
    job = driver.enqueue_and_claim("a", **more)
    waits(driver)
    return job


def _applies(step: Callable[[Record], Transition], **more: Any) -> Callable[[QueueDriver], Any]:
    """Prepares a leased job; returns a function that applies a transition to it."""

    def prepare(driver: QueueDriver) -> Callable[[], object]:
        job = _leased(driver, **more)
        return lambda: driver.apply_one(step(job))

    return prepare


def _failed(job: Record) -> Transition:
    return fail(job, failure(job), policy_of(job), random.Random(0))


def _put(driver: QueueDriver, **more: Any) -> Callable[[], object]:
    waits(driver)
    return lambda: driver.enqueue("a", **more)


def _waiting(act: Callable[[QueueDriver], object], **more: Any) -> Callable[[QueueDriver], Any]:
    """Prepares a queued job."""

    def prepare(driver: QueueDriver) -> Callable[[], object]:
        driver.enqueue("a", **more)
        waits(driver)
        return lambda: act(driver)

    return prepare


def _expire(driver: QueueDriver) -> Callable[[], object]:
    job = _leased(driver)
    driver.clock.advance(1000.0)
    return lambda: driver.expire(job)


def _redrive(driver: QueueDriver) -> Callable[[], object]:
    driver.dead_letter("a")
    waits(driver)
    return lambda: driver.apply_one(redrive("a"))


def _prune(driver: QueueDriver) -> Callable[[], object]:
    driver.complete(driver.enqueue_and_claim("a"))
    driver.clock.advance(1e5)
    return lambda: driver.store.prune(driver.queue, 10)


def _promote(driver: QueueDriver) -> Callable[[], object]:
    driver.enqueue("a", delay=5.0)
    waits(driver)
    driver.clock.advance(10.0)
    return lambda: driver.store.promote(driver.queue, 10)


def _move_away(driver: QueueDriver) -> object:
    return driver.apply_one(move("a", driver.other_queue("other").queue))


def _move_here(driver: QueueDriver) -> Callable[[], object]:
    other = driver.other_queue("other")
    other.enqueue("a")
    waits(driver)
    return lambda: other.apply_one(move("a", driver.queue))


CHANGES: dict[str, Callable[[QueueDriver], Any]] = {
    "enqueue": _put,
    "enqueue for later": lambda driver: _put(driver, delay=5.0),
    "claim": _waiting(lambda driver: driver.claim_jobs()),
    "complete": _applies(lambda job: complete(job, b"1", policy_of(job))),
    "fail": _applies(_failed),
    "fail for good": _applies(_failed, max_attempts=1),
    "snooze": _applies(lambda job: snooze(job, 2.5, policy_of(job))),
    "release": _applies(lambda job: release(job, policy_of(job))),
    "stop": _applies(lambda job: cancel_running(job, "", policy_of(job))),
    "extend": _applies(lambda job: extend(job, 60.0)),
    "progress": _applies(lambda job: progress(job, b"1")),
    "ask to stop": _applies(lambda job: request_cancel(job.id)),
    "expire": _expire,
    "cancel": _waiting(lambda driver: driver.apply_one(cancel("a", DEFAULTS))),
    "edit": _waiting(lambda driver: driver.apply_one(edit("a", Edit(priority=9)))),
    "edit a later job": _waiting(
        lambda driver: driver.apply_one(edit("a", Edit(delay=1.0))), delay=5.0
    ),
    "redrive": _redrive,
    "promote": _promote,
    "move away": _waiting(_move_away),
    "move here": _move_here,
    "prune": _prune,
    "purge": _waiting(lambda driver: driver.store.purge(driver.queue, Filter(), 10)),
    "pause": _waiting(lambda driver: driver.configure(paused=True)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_who_is_woken(driver: QueueDriver, change: str) -> None:
    """`topics_to_notify`: whose listeners are woken by the entries of the journal."""
    act = CHANGES[change](driver)
    after = driver.journal()[-1].cursor
    subjects = {(driver.queue, topic) for topic in TOPICS}
    with driver.store.subscribe() as subscription:
        subscription.add(subjects)
        while subscription.wait(0.05):
            pass
        act()
        topics = topics_to_notify(driver.store.events(driver.queue, after, 100))
        assert topics > {"changes"} or change in ("claim", "extend", "progress")
        missing, until = {(driver.queue, topic) for topic in topics}, time.monotonic() + 5.0
        while missing and time.monotonic() < until:
            notified = subscription.wait(0.5)
            missing -= subjects if notified is None else set(notified)
        assert missing == set()
