"""Lives are the same however their journal is cut, and one row of each is carried on."""

from __future__ import annotations

import random
from typing import Any

import pyarrow
import pytest
from pyspark.sql import functions as F  # noqa: N812
from tests.spark.support.job_histories import all_events, change

from ackline.core.clock import ManualClock
from ackline.core.events import Act, read_cursor
from ackline.core.job import TERMINAL, QueueKey, State
from ackline.queues import Queues
from ackline.spark import schemas
from ackline.spark.tables.event_rows import events_batch
from ackline.spark.transforms.job_runs import job_runs, timed_steps
from ackline.spark.transforms.open_jobs import open_jobs
from ackline.spark.transforms.steps import JOB_KEY
from ackline.stores.memory import MemoryStore

HISTORIES = 30
BATCHES = 3
OF_A_STEP = ("since", "before_act", "age", "deliveries", "begun", "priority", "leads_to")


def history(seed):
    """All that can happen to a few jobs, by chance, in the order of the journal."""
    choose, clock = random.Random(seed), ManualClock()
    store = MemoryStore(clock)
    store.open()
    queues = Queues(store)
    for _ in range(60):
        here, there = choose.sample([queues["email"], queues["other"]], 2)
        choose.choice(ACTS)(here, there, choose)
        clock.advance(choose.choice([0.0, 0.1, 3.7, 31.0, 31.0, -50.0]))
    events = [event for event in all_events(queues) if event.id]
    return sorted(events, key=lambda event: read_cursor(event.cursor))


def enqueue(here, there, choose):
    id, delay = choose.choice("abcd"), choose.choice([0.0, 5.0])
    here.enqueue(1, id=id, priority=choose.randrange(10), delay=delay, max_attempts=3)


def work(here, there, choose):
    for job in here.claim(choose.randrange(4), lease=30, worker=choose.choice(["one", "two"])):
        ends = (here.complete, here.release, lambda job: here.snooze(job, 2), lambda job: None)
        fails = (
            lambda job: here.fail(job, choose.choice(["no", "never"])),
            lambda job: here.bury(job, "no"),
        )
        choose.choice(ends + fails)(job)


def operate(here, there, choose):
    for job in here.jobs(states=[choose.choice(list(State))], limit=1).jobs:
        if job.state is State.FAILED and choose.random() < 0.7:
            here.redrive(job.id)
        elif job.state is not State.PROCESSING and there.status(job.id) is None:
            here.move(job.id, there.name)


def edit(here, there, choose):
    for job in here.jobs(states=[State.QUEUED, State.FAILING, State.FAILED], limit=1).jobs:
        here.edit(job.id, priority=choose.randrange(10))


def purge(here, there, choose):
    here.purge(ids=[choose.choice("abcd")])


def cancel(here, there, choose):
    for job in here.jobs(states=[State.QUEUED, State.PROCESSING], limit=1).jobs:
        here.cancel(job.id)


ACTS = [enqueue, enqueue, work, work, work, work, operate, operate, edit, purge, cancel]


def spoil(events, choose):
    """Ends that fell into a gap, and a beginning that was dropped."""
    kept = [event for event in events if not (ends(event) and choose.random() < 0.2)]
    if choose.random() < 0.5:
        return kept
    known, collected = set(), []
    for event in kept[choose.randrange(len(kept)) :]:
        # What was edited before the first step that is kept would not be carried on.
        if event.act is not Act.EDIT or (event.queue, event.id) in known:
            known.add((event.queue, event.id))
            collected.append(event)
    return collected


def ends(event):
    return event.to is None or event.to in TERMINAL


def cut(events, choose):
    """A journal in some batches, of which some may be empty."""
    places = sorted(choose.randrange(len(events) + 1) for _ in range(BATCHES - 1))
    ways = zip([0, *places], [*places, len(events)], strict=True)
    return [events[start:end] for start, end in ways]


@pytest.fixture(scope="module")
def batches():
    """Histories beside each other, each as a tenant of its own and cut at other places."""
    found: list[list[Any]] = [[] for _ in range(BATCHES)]
    for seed in range(HISTORIES):
        choose = random.Random(seed)
        events = spoil(history(seed), choose)
        for batch, part in zip(found, cut(events, choose), strict=True):
            keys = (QueueKey(f"tenant {seed:02d}", event.queue.name) for event in part)
            batch += [change(event, queue=key) for event, key in zip(part, keys, strict=True)]
    return found


def frame(spark, events):
    table = pyarrow.Table.from_batches([events_batch(events)])
    return spark.createDataFrame(table, schemas.EVENTS)


def rows_of(table):
    return sorted(map(repr, table.toArrow().to_pylist()))


def steps_in(table):
    begun = F.col("life") > 0
    return rows_of(table.withColumn("begun", begun).select(*JOB_KEY, "place", *OF_A_STEP))


def going_on(spark, before, batch):
    """The entries of a batch, after what was carried on."""
    entries = frame(spark, batch).withColumn("new", F.lit(True))
    if before is None:
        return entries
    return entries.unionByName(before.withColumn("new", F.lit(False)), allowMissingColumns=True)


class Told:
    """What steps tell of lives that are over, of new steps, and of lives that go on."""

    def __init__(self):
        self.over: list[str] = []
        self.new: list[str] = []
        self.open: Any = None

    def add(self, spark, entries):
        steps = timed_steps(entries).persist()
        self.over += rows_of(job_runs(steps.where("not goes_on")))
        self.new += steps_in(steps.where("new"))
        self.open = spark.createDataFrame(open_jobs(steps).toArrow())
        steps.unpersist()


@pytest.fixture(scope="module")
def at_once(spark, batches):
    collected = Told()
    collected.add(spark, going_on(spark, None, [event for batch in batches for event in batch]))
    return collected


@pytest.fixture(scope="module")
def in_batches(spark, batches):
    collected = Told()
    for batch in batches:
        collected.add(spark, going_on(spark, collected.open, batch))
    return collected


class TestAnyHistoryCutAnywhere:
    def test_lives_that_are_over_are_the_same(self, at_once, in_batches):
        assert len(at_once.over) > 3 * HISTORIES
        assert sorted(in_batches.over) == sorted(at_once.over)

    def test_new_steps_are_the_same(self, at_once, in_batches):
        assert sorted(in_batches.new) == sorted(at_once.new)

    def test_what_is_carried_on_is_the_same_and_one_row_for_each_life(self, at_once, in_batches):
        jobs = in_batches.open.select(*JOB_KEY)

        assert jobs.count() == jobs.distinct().count() > HISTORIES
        assert rows_of(in_batches.open) == rows_of(at_once.open)

    def test_all_that_can_happen_has_happened(self, batches, at_once):
        acts = {event.act for batch in batches for event in batch}
        over = " ".join(at_once.over)

        assert acts >= {Act.MOVE, Act.REDRIVE, Act.RELEASE, Act.EXPIRE, Act.EDIT, Act.SNOOZE}
        assert acts >= {Act.PURGE, Act.PROMOTE, Act.CANCEL, Act.FAIL, Act.COMPLETE}
        assert "'began_at': None" in over
        assert "'outcome': 'unknown'" in over


def polling(snoozes):
    """A job that looks again and again, and then ends."""
    clock = ManualClock()
    store = MemoryStore(clock)
    store.open()
    queues = Queues(store)
    queue = queues["email"]
    queue.enqueue(1)
    for _ in range(snoozes):
        queue.snooze(queue.claim(1, worker="one")[0], 1)
        clock.advance(2)
    queue.complete(queue.claim(1)[0])
    return [event for event in queue.events() if event.id]


def test_a_life_is_one_row_however_long_it_polls(spark):
    snoozes = 400
    *before, end = polling(snoozes)
    cut, whole = Told(), Told()

    cut.add(spark, going_on(spark, None, before))
    rows = cut.open.count()
    cut.add(spark, going_on(spark, cut.open, [end]))
    whole.add(spark, going_on(spark, None, [*before, end]))

    assert rows == 1
    assert cut.open.count() == 0
    assert cut.over == whole.over
    assert f"'snoozes': {snoozes}," in cut.over[0]
