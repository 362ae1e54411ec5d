"""The audit finds every fault that was put in, and nothing else."""

from __future__ import annotations

import pyarrow
import pytest
from pyspark.sql import functions as F  # noqa: N812
from tests.spark.support.job_histories import all_events, change, live_through

import ackline
from ackline.core.clock import ManualClock
from ackline.core.events import Act
from ackline.core.job import QueueKey, State
from ackline.core.lifecycle import FENCED_ACTS
from ackline.queues import Queues
from ackline.spark import schemas
from ackline.spark.audit import run
from ackline.spark.audit.effective_limits import limits_table
from ackline.spark.audit.findings import findings
from ackline.spark.audit.run import run_audit
from ackline.spark.audit.store_history import StoreTables
from ackline.spark.tables.event_rows import events_batch
from ackline.spark.tables.job_rows import jobs_batch
from ackline.stores.contract import Filter
from ackline.stores.memory import MemoryStore

pytestmark = pytest.mark.ci

DAY = 86_400.0
JUDGED = ("tenant", "queue", "id", "kind", "state", "max_attempts")


@pytest.fixture(scope="module")
def lived():
    """A store in which much has happened."""
    clock = ManualClock()
    store = MemoryStore(clock)
    store.open()
    queues = Queues(store)
    live_through(queues, clock, 60)
    yield queues
    queues.close()


@pytest.fixture
def judge(spark, lived):
    def call(events, leave_out=frozenset(), trimmed=(), now=None, queues=lived):
        jobs, now = [], queues.store.now() if now is None else now
        for name in queues:
            key = QueueKey("default", name)
            page = queues.store.page(key, Filter(), None, 10_000).jobs
            batch = jobs_batch(key, [job for job in page if job.id not in leave_out])
            jobs += batch.to_pylist()
        table = pyarrow.Table.from_batches([events_batch(list(events))])
        journal = spark.createDataFrame(table, schemas.EVENTS)
        store = spark.createDataFrame(
            [tuple(job[name] for name in JUDGED) for job in jobs],
            "tenant string, queue string, id string, kind string, state string, max_attempts int",
        )
        found = findings(
            journal, store, limits_table(spark, queues.store, queues.describe(), now), trimmed
        )
        return {(row["finding"], row["id"]) for row in found.collect()}

    return call


def last_of(events):
    return list({(event.queue, event.id): event for event in events if event.id}.values())


def test_a_true_journal_adds_up(lived, judge):
    events = all_events(lived)
    acts = {event.act for event in events}
    assert acts >= {Act.EXPIRE, Act.SNOOZE, Act.RELEASE, Act.REDRIVE, Act.MOVE, Act.CANCEL}

    assert judge(events) == set()


@pytest.mark.slow
def test_a_true_journal_of_every_store_adds_up(queues, clock, judge):
    live_through(queues, clock, 60)
    for number, id in enumerate(("a", "a", "b")):
        # Replaced, and as another kind.
        queues["email"].enqueue(number, id=id, kind=f"kind {number}", max_attempts=1)
        for job in queues["email"].claim(10):
            queues["email"].bury(job, "no")
    queues["email"].edit("a", priority=1)
    queues["email"].move("b", "other")

    assert judge(all_events(queues), queues=queues) == set()


def test_every_fault_is_found_and_nothing_else(lived, judge):
    """Each in another job, so that each is found for itself."""
    events = all_events(lived)
    waiting = [event.id for event in last_of(events) if event.to is State.QUEUED]
    ended = iter([event for event in last_of(events) if event.act is Act.COMPLETE])
    lost = waiting[0]
    hidden, unclaimed, twice, wrong, undone = (next(ended).id for _ in range(5))

    def spoil(event):
        if event.id == hidden:
            return None
        if event.id == unclaimed and event.act is Act.CLAIM:
            return None
        if event.id == wrong and event.act is Act.COMPLETE:
            return change(event, act=Act.PROMOTE)
        return None if event.id == undone and event.act is Act.COMPLETE else event

    spoilt = [event for event in map(spoil, events) if event is not None]
    end = next(event for event in events if event.id == twice and event.act is Act.COMPLETE)
    spoilt.append(change(end, cursor="900000.1"))
    often = next(event for event in last_of(events) if event.to is State.FAILED)
    spoilt += once_too_often(often)

    assert judge(spoilt, leave_out={lost}) == {
        ("lost", lost),
        ("unheard_of", hidden),
        ("broken", unclaimed),
        ("illegal", wrong),
        ("differs", undone),
        ("broken", twice),
        ("ended_twice", twice),
        ("delivered_too_often", often.id),
    }


def test_deliveries_are_judged_by_the_limit_of_the_job_that_they_are_of(judge, clock):
    """One that has failed is replaced by another of the same id, which may be tried less often."""
    store = MemoryStore(clock)
    store.open()
    queues = Queues(store)
    queue = queues["email"]
    for attempts in (4, 2):
        queue.enqueue(attempts, id="a", max_attempts=attempts, backoff=1.0)
        for _ in range(attempts):
            queue.fail(queue.claim(1)[0], "no")
            clock.advance(2)

    assert judge(all_events(queues), queues=queues) == set()
    # The control: with one delivery more it would be found.
    (last, *_) = [event for event in all_events(queues)[::-1] if event.act is Act.CLAIM]
    again = change(last, cursor="900000.1", token=last.token + 1, attempt=3)
    assert ("delivered_too_often", "a") in judge([*all_events(queues), again], queues=queues)


def once_too_often(dead):
    """A failed job is redriven, and handed out four times where three are allowed."""
    handed_out = (Act.CLAIM, State.QUEUED, State.PROCESSING)
    steps = [(Act.REDRIVE, State.FAILED, State.QUEUED)]
    for to in (State.QUEUED, State.QUEUED, State.QUEUED, State.FAILED):
        steps += [handed_out, (Act.EXPIRE, State.PROCESSING, to)]
    return [
        change(
            dead,
            act=act,
            source=source,
            to=to,
            cursor=f"90000{number}.1",
            attempt=(number + 1) // 2,
            token=dead.token + (number + 1) // 2,
        )
        for number, (act, source, to) in enumerate(steps)
    ]


def test_an_end_is_lost_only_while_it_must_be_kept(lived, judge):
    events = all_events(lived)
    ends: dict[State, list[str]] = {
        state: [] for state in (State.FAILED, State.CANCELLED, State.COMPLETED)
    }
    for event in last_of(events):
        if event.to in ends and event.act not in (Act.MOVE, Act.EDIT):
            ends[event.to].append(event.id)
    failed, cancelled, completed = (ids[0] for ids in ends.values())
    gone, now = {failed, cancelled, completed}, lived.store.now()

    # How long a completed job is kept its handler says, and the journal does not.
    assert judge(events, gone) == {("lost", failed), ("lost", cancelled)}
    assert judge(events, gone, now=now + 2 * DAY) == {("lost", failed)}
    assert judge(events, gone, now=now + 31 * DAY) == set()
    # Nor does it say for how long jobs were kept before that was changed.
    changed = change(events[-1], act=Act.CONFIGURE, id="", source=None, to=None, cursor="900000.1")
    queues = {queue: change(changed, queue=QueueKey("default", queue)) for queue in lived}
    assert judge([*events, *queues.values()], gone) == set()


def test_a_lease_is_judged_by_its_token(lived, judge):
    """Everything that only the holder of a lease may do."""
    events = all_events(lived)
    fenced = {event.act: event for event in events if event.act in FENCED_ACTS}
    assert fenced.keys() == {Act.COMPLETE, Act.FAIL, Act.SNOOZE, Act.RELEASE, Act.EXPIRE}
    stale = {event.cursor: event.id for event in fenced.values()}

    def spoil(event):
        return change(event, token=event.token + 1) if event.cursor in stale else event

    assert judge(map(spoil, events)) == {("stale_settle", id) for id in stale.values()}


def test_a_trimmed_journal_is_not_blamed_for_its_beginning(lived, judge):
    events = all_events(lived)
    email = [event for event in events if event.queue.name == "email"]
    half = [event for event in events if event not in email] + email[len(email) // 2 :]

    assert judge(half, trimmed=["email"]) == set()


def test_a_journal_that_is_not_known_to_be_trimmed_is(lived, judge):
    """The control: without that knowledge, it is as if entries were missing."""
    events = [event for event in all_events(lived) if event.queue.name == "email"]

    assert "broken" in {name for name, _ in judge(events[len(events) // 2 :])}


class TestOfAStore:
    def live(self, queues):
        queue = queues["email"]
        queue.enqueue_many(range(30))
        for job in queue.claim(10):
            queue.complete(job)

    @pytest.mark.parametrize(
        "store_name",
        ["sqlite", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("redis", "postgres"))],
    )
    def test_it_passes(self, spark, url):
        with ackline.open(url) as queues:
            self.live(queues)

            found = run_audit(spark, url, queues)

        assert found.passed
        assert (found.events, found.jobs, found.gaps) == (50, 30, ())


def test_a_dropped_queue_is_judged_as_long_as_its_journal_is_kept(spark, sqlite_url):
    with ackline.open(sqlite_url) as queues:
        queues["a"].enqueue_many(range(3))
        queues["a"].complete(queues["a"].claim(1)[0])
        queues["a"].drop(force=True)

        audit = run_audit(spark, sqlite_url, queues)

    assert audit.events > 3
    assert audit.passed, audit.findings


def test_a_journal_that_is_pruned_meanwhile_is_not_blamed_for_its_beginning(
    spark, sqlite_url, monkeypatch
):
    with ackline.open(sqlite_url) as queues:
        queue = queues["email"]
        queue.configure(max_journal=1)
        queue.enqueue_many(range(5))
        look = queues.info

        def look_and_prune():
            info = look()
            queues.store.prune(queue.key, 100)
            return info

        # The last that happens before Spark reads the journal.
        monkeypatch.setattr(queues, "info", look_and_prune)

        audit = run_audit(spark, sqlite_url, queues)

    assert audit.jobs == 5
    assert audit.passed, audit.findings
    assert [gap.queue for gap in audit.gaps] == ["email"]
    assert not audit.proven


def test_jobs_that_spark_has_lost_are_not_read_again(spark, sqlite_url, monkeypatch):
    """By then they may have changed, and what has happened since may have been planned before."""
    states: list[str] = []

    def lose_them_and_judge(events, jobs, *more, **options):
        queues["email"].complete(queues["email"].claim(1)[0])
        spark.catalog.clearCache()
        states.extend(row["state"] for row in jobs.collect())
        return findings(events, jobs, *more, **options)

    monkeypatch.setattr(run, "findings", lose_them_and_judge)
    with ackline.open(sqlite_url) as queues:
        queues["email"].enqueue_many(range(3))

        audit = run_audit(spark, sqlite_url, queues)

    assert states == ["queued"] * 3
    assert audit.passed, audit.findings


def test_a_job_is_not_judged_by_the_limit_of_one_that_took_its_id_meanwhile(
    spark, sqlite_url, monkeypatch
):
    read = StoreTables.read

    def enqueue_anew_and_read(tables, table, **options):
        if table != "jobs":
            return read(tables, table, **options)
        queue.enqueue(2, id="anew", max_attempts=1)
        queue.redrive("gone on")
        # As if they had been handed out more often than they may be.
        return read(tables, table, **options).withColumn("max_attempts", F.lit(1))

    monkeypatch.setattr(StoreTables, "read", enqueue_anew_and_read)
    with ackline.open(sqlite_url) as queues:
        queue = queues["email"]
        for id in ("anew", "gone on", "quiet"):
            queue.enqueue(1, id=id, max_attempts=2)
            for _ in range(2):
                queue.fail(queue.claim(1)[0], "no", delay=0)

        audit = run_audit(spark, sqlite_url, queues)

    # The controls: what has happened to the others since gives them no other limit.
    assert [(row["finding"], row["id"]) for row in audit.findings] == [
        ("delivered_too_often", "gone on"),
        ("delivered_too_often", "quiet"),
    ]
