"""Moves between queues, in the audit: what left one must have come to the other."""

from __future__ import annotations

import pytest
from tests.spark.support.audited_stores import events_of, jobs_of, judged, table_of
from tests.spark.support.job_histories import all_events, change

from ackline.core.clock import ManualClock
from ackline.core.events import Act
from ackline.core.job import State
from ackline.queues import Queues
from ackline.spark.audit.findings import move_findings, without_transient
from ackline.spark.transforms.journal_slices import mark_queues
from ackline.stores.memory import MemoryStore

pytestmark = pytest.mark.ci

TENANTS = ("default", "acme")
HERE, THERE = "email", "other, to email"
OF_EVERY_STATE = {state for state in State if state is not State.PROCESSING}


def move_about(queues, clock):
    """Jobs in every state that can be moved go to another queue; most come back and go on."""
    here, there = queues[HERE], queues[THERE]
    for id in ("failing", "failed", "completed", "worn"):
        here.enqueue(1, id=id, backoff=[1.0] * 4, max_attempts=5)
    held = {job.id: job for job in here.claim(10)}
    here.fail(held["failing"], "no")
    here.fail(held["worn"], "no")
    here.bury(held["failed"], "no")
    here.complete(held["completed"])
    here.enqueue(1, id="scheduled", delay=5)
    for id in ("cancelled", "queued", "vanished", "doubled"):
        here.enqueue(1, id=id)
    here.cancel("cancelled")
    for job in here.jobs().jobs:
        here.move(job.id, THERE)
    for job in there.jobs().jobs:
        if job.id not in ("worn", "vanished", "doubled"):
            there.move(job.id, HERE)
    here.redrive("failed")
    clock.advance(10)
    queues.store.promote(here.key, 10)
    for job in here.claim(10):
        here.complete(job)


@pytest.fixture(scope="module")
def lived():
    """Two tenants with the same jobs."""
    clock = ManualClock()
    store = MemoryStore(clock)
    store.open()
    tenants = [Queues(store, tenant) for tenant in TENANTS]
    for queues in tenants:
        move_about(queues, clock)
    yield tenants
    store.close()


@pytest.fixture
def judge(spark, lived):
    def call(events, jobs, **unseen):
        found = judged(spark, lived, events, jobs, **unseen)
        of_each = [{row[:1] + row[2:] for row in found if row[1] == tenant} for tenant in TENANTS]
        assert of_each[0] == of_each[1]
        return of_each[0]

    return call


def leaves(event, id):
    return event.act is Act.MOVE and event.id == id and event.to is None


def enters(event, id):
    return event.act is Act.MOVE and event.id == id and event.source is None


def test_what_moves_there_and_back_adds_up(lived, judge):
    events = events_of(lived)
    assert {event.source for event in events if leaves(event, event.id)} == OF_EVERY_STATE

    assert judge(events, jobs_of(lived)) == set()


def spoil(event):
    """One job never came, one never left, and one came as it had not been."""
    if enters(event, "vanished") or leaves(event, "doubled"):
        return None
    return change(event, attempt=0) if enters(event, "worn") else event


@pytest.fixture
def spoilt(lived):
    events = [event for event in map(spoil, events_of(lived)) if event is not None]
    jobs = [job for job in jobs_of(lived) if job["id"] != "vanished"]
    return events, jobs + [job | {"queue": HERE} for job in jobs if job["id"] == "doubled"]


def test_a_job_that_is_lost_or_doubled_on_its_way_is_found(spoilt, judge):
    assert judge(*spoilt) == {
        ("moved_nowhere", HERE, "vanished"),
        ("moved_from_nowhere", THERE, "doubled"),
        ("moved_nowhere", HERE, "worn"),
        ("moved_from_nowhere", THERE, "worn"),
    }


@pytest.mark.parametrize("queue", [HERE, THERE])
def test_a_queue_that_is_not_audited_is_not_missed(spark, lived, queue):
    events = table_of(spark, [event for event in events_of(lived) if event.queue.name == queue])
    (other,) = {HERE, THERE} - {queue}

    assert move_findings(events, [other]).collect() == []
    # The control: a queue that the store does not know of any more.
    names = {row["finding"] for row in move_findings(events).collect()}
    assert names == {"moved_nowhere", "moved_from_nowhere"}


@pytest.mark.parametrize(
    ("names", "marked", "joins"),
    [([], [], 0), (["a"], ["a"], 1), ([*map(str, range(20_000)), "a", "a"], ["a"], 1)],
)
def test_any_number_of_names_is_one_small_table(spark, capsys, names, marked, joins):
    """As a list in the query, the last would take the driver some ten seconds."""
    rows = spark.createDataFrame([("a",), ("b",), (None,)], "left string")

    found = mark_queues(rows, "left", names, "unseen")

    assert [row["left"] for row in found.where("unseen").collect()] == marked
    assert found.count() == 3
    found.explain()
    plan = capsys.readouterr().out
    assert (plan.count("Join"), plan.count("BroadcastHashJoin")) == (joins, joins)


@pytest.mark.parametrize("queue", [HERE, THERE])
def test_a_trimmed_journal_is_not_blamed_for_halves_of_moves(lived, judge, queue):
    events = events_of(lived)
    last = {(event.queue, event.id): event for event in events}
    trimmed = [
        event
        for event in events
        if event.queue.name != queue or event is last[event.queue, event.id]
    ]
    assert len(trimmed) < len(events)

    assert judge(trimmed, jobs_of(lived), trimmed=[queue]) == set()


def test_a_job_that_is_sent_back_has_not_left(spark, lived):
    """In a cluster the id may be taken only when the job comes."""
    events, lost = [], []
    for queues in lived:
        left = next(event for event in all_events(queues) if leaves(event, "queued"))
        back = change(left, source=None, to=left.source)
        events += [left, back]
        lost += [change(left, id="lost")]

    found = move_findings(table_of(spark, [*events, *lost])).collect()

    assert [row["id"] for row in found] == ["lost", "lost"]


def test_a_half_that_is_told_meanwhile_is_not_missed(spark, lived):
    """Of a job in another queue that says nothing else than that the job has come."""
    events = events_of(lived[:1])
    since = table_of(spark, [event for event in events if enters(event, "vanished")])
    rows = [
        (name, "default", HERE, id, "", "")
        for id in ("vanished", "worn")
        for name in ("moved_nowhere", "lost", "broken")
    ]
    columns = "finding string, tenant string, queue string, id string, place string, detail string"

    left = without_transient(spark.createDataFrame(rows, columns), since).collect()

    assert set(map(tuple, left)) == {*rows} - {rows[0]}
