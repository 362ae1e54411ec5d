"""A stream of jobs, with every way a driver can die, on every store."""

from __future__ import annotations

import contextlib
import json
import time
from typing import Any

import pyarrow
import pytest
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable
from tests.harness.servers.service import ServiceThread
from tests.spark.support.clocked_address import DriverAddress, TestAddress
from tests.spark.support.query_options import read_options
from tests.spark.support.simulated_driver import POINTS, Checkpoint, Died, Driver

import ackline
from ackline import NewJob
from ackline.core.config import DAY, Policy
from ackline.core.errors import ConfigError, StoreUnavailable
from ackline.core.events import Act
from ackline.core.job import State
from ackline.core.lifecycle import Verdict
from ackline.core.limits import RESERVED_KEY_PREFIX
from ackline.service import Settings
from ackline.service.runtime import Runtime
from ackline.service.store_api import arguments
from ackline.spark.errors import StreamFenced, StreamMismatch
from ackline.spark.fleet.stop_flag import StopFlag
from ackline.spark.options import ClaimsOptions
from ackline.spark.store import retry
from ackline.spark.store.page_size import MAX_BATCH
from ackline.spark.streams.claims.leases import leases_of
from ackline.spark.streams.claims.manifest_store import ManifestStore
from ackline.spark.streams.claims.manifests import Manifest, PendingBatch
from ackline.spark.streams.claims.stream_reader import ClaimsStreamReader
from ackline.spark.writing.outcome_writer import OutcomesTableWriter

LEASE = 300.0


@pytest.fixture
def start(connect):
    """Starts drivers; none outlives the test."""
    drivers = []

    def call(checkpoint, *, now=False, **options):
        options = {"max_jobs_per_trigger": 10, "lease": LEASE, "wait": 0.0} | options
        asked = ClaimsOptions(
            store="", table="jobs", **{"queue": "email", "stream_id": "lake", **options}
        )
        address: Any = DriverAddress(connect)
        reader = ClaimsStreamReader(asked, address)
        drivers.append(Driver(reader, checkpoint, now=now))
        return drivers[-1]

    yield call
    for driver in drivers:
        driver.die()


@pytest.fixture
def email(queues):
    return queues["email"]


@pytest.fixture
def checkpoint():
    return Checkpoint()


def put(queue, count, prefix="j", **options):
    ids = [f"{prefix}{number}" for number in range(count)]
    queue.enqueue_many([NewJob({"id": id}, id=id, **options) for id in ids])
    return ids


@pytest.mark.every_store
def test_jobs_come_once_and_are_completed_when_committed(email, start, checkpoint):
    ids = put(email, 25)
    driver = start(checkpoint)

    assert driver.trigger()
    assert email.counts()[State.PROCESSING] == 10
    driver.run()

    assert checkpoint.ids == ids
    assert [len(rows) for rows in checkpoint.lake.values()] == [10, 10, 5]
    assert email.counts()[State.COMPLETED] == 25


def test_an_idle_stream_leaves_nothing_unsettled(email, start, checkpoint):
    put(email, 3)
    driver = start(checkpoint)
    driver.trigger()
    assert email.counts()[State.PROCESSING] == 3

    assert not driver.trigger()

    assert email.counts()[State.COMPLETED] == 3


def test_rows_tell_what_the_job_is(email, start, checkpoint):
    email.enqueue({"a": 1}, id="a", kind="welcome", priority=7, group="g", headers={"k": "v"})
    start(checkpoint).run()

    row = checkpoint.rows[0]
    assert (row["queue"], row["id"], row["kind"], row["priority"]) == ("email", "a", "welcome", 7)
    assert (row["payload"], row["codec"], row["attempts"]) == (b'{"a":1}', "json", 1)
    assert (row["group"], dict(row["headers"])) == ("g", {"k": "v"})


@pytest.mark.every_store
@pytest.mark.parametrize("point", POINTS)
def test_a_killed_driver_repeats_its_batch_while_leases_live(
    point, email, start, checkpoint, clock
):
    ids = put(email, 25)
    first = start(checkpoint)
    first.trigger()
    with pytest.raises(Died):
        first.trigger(die_at=point)
    first.die()
    clock.advance(LEASE / 2)

    start(checkpoint).run()

    assert checkpoint.ids == ids
    assert email.counts()[State.COMPLETED] == 25
    assert all(job.attempt == 1 for job in email.jobs().jobs)


@pytest.mark.every_store
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("stolen", [False, True])
def test_nothing_is_lost_or_doubled_when_leases_lapse(
    point, stolen, email, start, checkpoint, clock
):
    ids = put(email, 25)
    first = start(checkpoint)
    first.trigger()
    with pytest.raises(Died):
        first.trigger(die_at=point)
    first.die()
    clock.advance(LEASE + 1)
    taken = []
    if stolen:
        thief = email.claim(3)
        taken = [job.id for job in thief]
        for job in thief:
            email.complete(job)

    start(checkpoint, now=True).run()

    assert {*checkpoint.ids, *taken} == set(ids)
    assert email.counts()[State.COMPLETED] == 25
    if not (stolen and point == "committed"):
        # There alone Spark knows that the batch is done, and the store did not hear of it in time.
        assert len(set(checkpoint.ids)) == len(checkpoint.ids)


def test_a_sink_that_appends_has_doubles_when_leases_lapse(email, start, checkpoint, clock):
    """The control: it is the overwriting of a batch's own path that makes it exactly once."""
    put(email, 5)
    first = start(checkpoint)
    with pytest.raises(Died):
        first.trigger(die_at="sunk")
    first.die()
    clock.advance(LEASE + 1)

    start(checkpoint).run()

    assert len(checkpoint.appended) == 10
    assert len(checkpoint.ids) == 5


def test_what_was_claimed_but_not_saved_goes_back(email, start, checkpoint, monkeypatch):
    ids = put(email, 5)
    first = start(checkpoint)

    def die(*_arguments, **_options):
        raise Died

    first.call("initialOffset")
    with monkeypatch.context() as patch:
        patch.setattr(ManifestStore, "save", die)
        with pytest.raises(Died):
            first.trigger()
    first.die()
    assert email.counts()[State.PROCESSING] == 5

    start(checkpoint).run()

    assert sorted(checkpoint.ids) == ids
    assert all(job.attempt == 1 for job in email.jobs().jobs)


def test_what_was_cancelled_meanwhile_is_kept_as_its_queue_says(email, start, checkpoint, queues):
    email.configure(policy=Policy(keep_cancelled=7 * DAY))
    put(email, 1)
    driver = start(checkpoint)
    driver.call("initialOffset")
    stray = email.claim(1, worker=driver.reader.options.worker_id)[0]
    email.cancel(stray.id)

    start(checkpoint).run()

    [job] = email.store.get(email.key, [stray.id])
    assert job.state is State.CANCELLED
    assert job.expires_at - queues.store.now() > 6 * DAY


def test_over_http_it_restarts_whatever_it_holds(monkeypatch, checkpoint):
    """No answer of the service has more jobs than this, and a driver may hold any number."""
    monkeypatch.setattr(arguments, "MAX_RESULTS", MAX_BATCH)
    runtime = Runtime.from_settings(Settings(store="memory://", port=0, drain=0))
    with ServiceThread(runtime) as service, ackline.open(service.url) as queues:
        put(queues["email"], MAX_BATCH + 100)
        address: Any = TestAddress(lambda: ackline.open(service.url))
        asked = ClaimsOptions(store="", table="jobs", queue="email", stream_id="lake", wait=0.0)
        for die_at in ("read", ""):
            reader = ClaimsStreamReader(asked, address)
            with contextlib.suppress(Died):
                Driver(reader, checkpoint).trigger(die_at)
            reader.stop()

    assert len(checkpoint.ids) == MAX_BATCH + 100


def test_the_driver_keeps_its_leases(email, start, checkpoint, clock):
    put(email, 5)
    driver = start(checkpoint)
    with pytest.raises(Died):
        driver.trigger(die_at="read")
    for _ in range(5):
        clock.advance(LEASE * 0.8)
        driver.beat()

    start(checkpoint).run()

    assert len(checkpoint.appended) == 5
    assert all(job.attempt == 1 for job in email.jobs().jobs)


def test_a_jobs_own_short_lease_is_lengthened(email, start, checkpoint, clock):
    put(email, 2, lease=1.0)
    driver = start(checkpoint)
    with pytest.raises(Died):
        driver.trigger(die_at="claimed")
    clock.advance(LEASE / 2)

    assert email.store.leases(email.key) == []


@pytest.mark.parametrize("noticed", [False, True])
def test_a_driver_that_slept_hands_out_no_job_that_it_has_lost(
    noticed, email, start, checkpoint, clock, monkeypatch
):
    ids = put(email, 5)
    driver = start(checkpoint)
    with pytest.raises(Died):
        driver.trigger(die_at="logged")
    clock.advance(LEASE + 1)
    email.expire(email.store.leases(email.key, limit=3))
    later = time.time() + 3600
    monkeypatch.setattr(time, "time", lambda: later)
    if noticed:
        driver.beat()

    driver.run()

    assert sorted(checkpoint.ids) == ids
    assert email.counts()[State.COMPLETED] == 5


@pytest.mark.every_store
def test_a_zombie_is_fenced(email, start, checkpoint):
    put(email, 30)
    zombie = start(checkpoint)
    zombie.trigger()
    start(checkpoint).trigger()

    with pytest.raises(StreamFenced, match="taken over"):
        zombie.trigger()
    start(checkpoint).run()

    assert sorted(checkpoint.ids) == sorted(f"j{number}" for number in range(30))
    assert email.counts()[State.COMPLETED] == 30


def test_an_idle_zombie_is_told(email, start, checkpoint):
    put(email, 3)
    zombie = start(checkpoint)
    zombie.run()
    start(checkpoint).run()
    assert not zombie.trigger()

    zombie.beat()

    with pytest.raises(StreamFenced):
        zombie.trigger()


class TestWokenUp:
    """A driver that was away while another took its stream over."""

    @pytest.fixture
    def successor(self, email, start, checkpoint):
        """Takes the stream over with jobs of its own."""

        def call():
            put(email, 5, prefix="new")
            driver = start(checkpoint)
            with pytest.raises(Died):
                driver.trigger(die_at="read")
            return driver

        return call

    def test_after_a_claim_that_failed_it_gives_back_nothing(
        self, email, start, checkpoint, successor, monkeypatch
    ):
        put(email, 3)
        zombie = start(checkpoint)
        zombie.run()

        def cut_off(*_given):
            monkeypatch.undo()
            successor()
            raise StoreUnavailable("cut off")

        monkeypatch.setattr(zombie.store, "claim", cut_off)
        with pytest.raises(StreamFenced):
            zombie.trigger()

        assert email.counts()[State.PROCESSING] == 5

    def test_in_its_first_steps_it_gives_back_nothing(
        self, email, start, checkpoint, successor, monkeypatch
    ):
        put(email, 3)
        start(checkpoint).run()
        begin = ManifestStore.begin

        def sleep_behind(room, accept):
            begin(room, accept)
            monkeypatch.undo()
            successor()

        monkeypatch.setattr(ManifestStore, "begin", sleep_behind)
        with pytest.raises(StreamFenced):
            start(checkpoint).trigger()

        assert email.counts()[State.PROCESSING] == 5

    def test_it_cannot_save_a_manifest(self, email, queues):
        old, new = (ManifestStore(queues.store, email.key, "lake") for _ in range(2))
        for room in (old, new):
            room.begin(lambda _state: None)

        with pytest.raises(StreamFenced):
            old.save(old.state, Manifest(1, (("a", 1),)))

        new.load()
        assert new.manifests == {}

    def test_it_gives_back_no_job_of_a_manifest_that_arrived_late(
        self, email, start, checkpoint, monkeypatch
    ):
        """A save was sent, the connection broke, and the server has it a little later."""
        ids = put(email, 3)
        driver = start(checkpoint)
        driver.call("initialOffset")
        store = driver.store
        write, sent = store.write_keys, list[Any]()

        def late(tenant, writes):
            if not sent:
                sent.append((tenant, writes))
                raise StoreUnavailable("the connection broke")
            if len(sent) == 1:
                sent.append((tenant, writes))
                assert write(*sent[0])
            return write(tenant, writes)

        monkeypatch.setattr(store, "write_keys", late)
        monkeypatch.setattr(retry, "FIRST_DELAY", 0.001)
        driver.run()

        assert checkpoint.ids == ids
        assert email.store.get(email.key, ids[:1])[0].history == ()


def test_a_lease_of_another_is_left_alone_when_a_batch_is_settled(email, start, checkpoint, clock):
    put(email, 2)
    first = start(checkpoint)
    with pytest.raises(Died):
        first.trigger(die_at="committed")
    first.die()
    clock.advance(LEASE + 1)
    taken = email.claim(2)

    assert not start(checkpoint).trigger()

    for job in taken:
        email.complete(job, "mine")
    assert email.result("j0") == "mine"


def test_what_others_have_completed_is_not_called_lost(email, start, checkpoint, clock, caplog):
    put(email, 2)
    driver = start(checkpoint)
    driver.trigger()
    clock.advance(LEASE + 1)
    done, _ = email.claim(2)
    email.complete(done)

    driver.trigger()

    assert "1 jobs of micro-batch 1" in caplog.text


def test_one_trigger_alone_is_refused(email, start, checkpoint):
    put(email, 2)
    driver = start(checkpoint)
    begin = driver.call("initialOffset")

    with pytest.raises(ConfigError, match="availableNow"):
        driver.call("latestOffset", begin, ReadAllAvailable())

    assert email.counts()[State.QUEUED] == 2


def test_headers_count_as_bytes(email, start, checkpoint):
    put(email, 20, headers={"k": "v" * 60_000})

    start(checkpoint, max_bytes_per_trigger=250_000).run()

    assert max(len(rows) for rows in checkpoint.lake.values()) == 5


def test_a_zombie_cannot_complete_what_was_left_out(email, start, checkpoint, clock, monkeypatch):
    """It wrote a batch, slept past its lease, and wakes up to settle it."""
    ids = put(email, 5)
    zombie = start(checkpoint)
    with pytest.raises(Died):
        zombie.trigger(die_at="sunk")
    clock.advance(LEASE + 1)
    successor = start(checkpoint)
    with pytest.raises(Died):
        successor.trigger(die_at="planned")
    assert checkpoint.offsets.keys() == {0}

    with monkeypatch.context() as patch, contextlib.suppress(StreamFenced):
        patch.setattr(ManifestStore, "is_fenced", lambda _manifest_store: False)
        zombie.call("commit", json.loads(checkpoint.offsets[0]))
    assert email.counts()[State.COMPLETED] == 0
    successor.run()

    assert sorted(checkpoint.ids) == ids


def test_a_new_checkpoint_is_refused(email, start, checkpoint):
    put(email, 15)
    start(checkpoint).run()

    with pytest.raises(StreamMismatch, match="another checkpoint"):
        start(Checkpoint()).trigger()


@pytest.mark.parametrize("of", ["nobody", "pond"])
def test_who_is_refused_does_not_stop_who_reads(of, email, start, checkpoint):
    put(email, 15)
    reading, other = start(checkpoint), Checkpoint()
    reading.run()
    if of == "pond":
        put(email, 1, prefix="pond")
        start(other, stream_id=of).run()
    put(email, 5, prefix="new")

    with pytest.raises(StreamMismatch):
        start(other).trigger()
    reading.run()

    assert len(checkpoint.ids) == 20


def test_a_new_checkpoint_begins_anew_when_asked_to(email, start, checkpoint):
    put(email, 15)
    first = start(checkpoint)
    first.trigger()
    first.trigger()
    other = Checkpoint()

    start(other, reset=True).run()

    assert len(other.ids) == 5
    assert email.counts()[State.COMPLETED] == 15


class TestTwoCheckpoints:
    """Until the first micro-batch is done, a new checkpoint is given it; then one must give way."""

    def begin(self, start, checkpoint, point):
        """A driver that dies in its first micro-batch."""
        driver = start(checkpoint)
        with pytest.raises(Died):
            driver.trigger(die_at=point)
        driver.die()

    @pytest.mark.parametrize("point", POINTS)
    def test_of_both_only_the_last_to_hand_out_jobs_goes_on(self, point, email, start, checkpoint):
        put(email, 25)
        self.begin(start, checkpoint, point)
        other = Checkpoint()
        live = start(other)
        live.trigger()
        first = dict(checkpoint.lake)
        assert len(other.ids) == 10

        if point != "claimed":
            # Else Spark has nothing of it: it is as new as the other was.
            with pytest.raises(StreamMismatch, match="generation"):
                start(checkpoint).trigger()
        live.run()

        assert checkpoint.lake == first
        assert len(other.ids) == 25
        assert all(job.attempt == 1 for job in email.jobs().jobs)
        with pytest.raises(StreamMismatch):
            start(checkpoint).trigger()

    @pytest.mark.parametrize("other_at", ["claimed", "logged"])
    @pytest.mark.parametrize("point", ["logged", "committed"])
    def test_the_first_goes_on_if_the_other_dies_before_it_hands_out_jobs(
        self, point, other_at, email, start, checkpoint
    ):
        ids = put(email, 25)
        self.begin(start, checkpoint, point)
        other = Checkpoint()
        self.begin(start, other, other_at)

        start(checkpoint).run()

        assert checkpoint.ids == ids
        with pytest.raises(StreamMismatch):
            start(other).trigger()

    @pytest.mark.parametrize("empty_first", [False, True])
    def test_killed_before_the_log_it_has_the_same_jobs_as_often_as_it_takes(
        self, empty_first, email, start, checkpoint
    ):
        """Spark logs a first micro-batch also if there is nothing in it."""
        if empty_first:
            checkpoint.offsets[0] = json.dumps(start(checkpoint).call("initialOffset"))
            checkpoint.commits.add(0)
        ids = put(email, 5)
        for _ in range(3):
            self.begin(start, checkpoint, "claimed")
            put(email, 5, prefix="late")
        self.begin(start, checkpoint, "read")

        start(checkpoint).trigger()

        assert checkpoint.ids == ids
        start(checkpoint).run()
        assert len(checkpoint.ids) == 10
        assert email.counts()[State.COMPLETED] == 10

    def test_two_drivers_that_begin_at_once_with_one_checkpoint_do_not_spoil_it(
        self, email, start, checkpoint
    ):
        """The second asks before the first has logged, but the first is the first to log."""
        ids = put(email, 5)
        with pytest.raises(Died):
            start(checkpoint).trigger(die_at="logged")
        logged, checkpoint.offsets = checkpoint.offsets, {}
        self.begin(start, checkpoint, "claimed")
        checkpoint.offsets = logged

        start(checkpoint).run()

        assert checkpoint.ids == ids

    def test_a_checkpoint_without_jobs_does_not_stop_who_reads(self, email, start, checkpoint):
        idle = Checkpoint()
        idle.offsets[0] = json.dumps(start(idle).call("initialOffset"))
        put(email, 15)
        other = Checkpoint()
        self.begin(start, other, "claimed")
        reading = start(checkpoint)
        reading.trigger()

        start(idle).run_batch(0)
        reading.run()

        assert len(checkpoint.ids) == 15


def test_it_does_not_begin_anew_when_another_was_first(email, start, checkpoint, monkeypatch):
    put(email, 15)
    late = start(Checkpoint())

    def find_nothing_yet(_manifest_store):
        monkeypatch.undo()
        start(checkpoint).run()

    monkeypatch.setattr(ManifestStore, "find", find_nothing_yet)
    with pytest.raises(StreamMismatch):
        late.trigger()
    put(email, 5, prefix="new")
    start(checkpoint).run()

    assert len(checkpoint.ids) == 20


def test_beginning_anew_can_be_repeated(email, start, checkpoint, monkeypatch):
    """The store is away just after the old checkpoint was forgotten."""
    monkeypatch.setattr(retry, "FIRST_DELAY", 0.001)
    put(email, 15)
    first = start(checkpoint)
    first.trigger()
    first.trigger()
    other = Checkpoint()
    second = start(other, reset=True)
    restart, cut = ManifestStore.restart, list[bool]()

    def restart_and_break(room):
        restart(room)
        cut.append(True)
        if len(cut) == 1:
            raise StoreUnavailable("away")

    monkeypatch.setattr(ManifestStore, "restart", restart_and_break)
    second.run()

    assert cut
    assert len(other.ids) == 5
    assert all(job.attempt == 1 for job in email.jobs().jobs)


def test_a_dropped_queue_leaves_nothing_of_its_streams(email, queues, start, checkpoint):
    put(email, 15)
    start(checkpoint).run()
    StopFlag([email], "eu").hoist()
    email.drop(force=True)
    assert queues.store.read_keys(queues.tenant, (RESERVED_KEY_PREFIX,), 10) == []

    put(email, 2)
    other = Checkpoint()
    start(other).run()

    assert len(other.ids) == 2


def test_the_keys_of_a_stream_are_no_others(queues, start, checkpoint):
    fleet, state = queues["fleet"], queues["state"]
    put(fleet, 3)
    start(checkpoint, queue="fleet", stream_id="eu").trigger()
    StopFlag([state], "eu").hoist()

    start(checkpoint, queue="fleet", stream_id="eu").run()

    assert fleet.counts()[State.COMPLETED] == 3


def test_another_streams_checkpoint_is_refused(email, start, checkpoint):
    put(email, 15)
    start(checkpoint).run()

    with pytest.raises(StreamMismatch, match="'lake'"):
        start(checkpoint, stream_id="pond").trigger()


def test_a_checkpoint_that_is_ahead_of_the_store_settles_nothing(email, start, checkpoint):
    put(email, 5)
    first = start(checkpoint)
    first.trigger()
    offset = checkpoint.offsets[0].replace('"batch": 1', '"batch": 7')
    checkpoint.offsets[0] = offset

    with pytest.raises(StreamMismatch, match="micro-batch 7"):
        start(checkpoint).trigger()

    assert email.counts()[State.PROCESSING] == 5


def test_batches_that_are_settled_can_be_read_again(email, start, checkpoint):
    """Spark's asynchronous log of commits may be behind when the driver dies."""
    ids = put(email, 25)
    start(checkpoint).run()
    for batch in (1, 2):
        checkpoint.commits.discard(batch)
    del checkpoint.offsets[2]

    start(checkpoint).run()

    assert checkpoint.ids == ids


def test_the_first_batch_can_be_read_again_when_it_is_settled(email, start, checkpoint):
    """Spark asks where the stream begins once more, as it does for a new checkpoint."""
    ids = put(email, 25)
    start(checkpoint).run()
    for batch in (1, 2):
        del checkpoint.offsets[batch], checkpoint.lake[batch]
    checkpoint.commits.clear()

    assert start(checkpoint).trigger()

    assert checkpoint.ids == ids[:10]


def test_a_lapsed_lease_that_the_store_cannot_take_back_holds_up_nothing(
    email, start, checkpoint, clock, monkeypatch
):
    put(email, 2)
    first = start(checkpoint)
    with pytest.raises(Died):
        first.trigger(die_at="logged")
    first.die()
    clock.advance(LEASE + 1)
    second = start(checkpoint)
    asked = []

    def cannot(_queue, steps):
        asked.append([step.act for step in steps])
        return [Verdict(False, State.PROCESSING)] * len(steps)

    monkeypatch.setattr(second.store, "apply", cannot)
    assert second.trigger()

    assert asked == [[Act.EXPIRE] * 2]


def test_available_now_ends_with_what_waited(email, start, checkpoint):
    put(email, 15)
    driver = start(checkpoint, now=True)
    driver.trigger()
    put(email, 10, prefix="late")

    driver.run()

    assert len(checkpoint.ids) == 15
    assert email.counts()[State.QUEUED] == 10


@pytest.mark.parametrize("arrives", [False, True])
def test_available_now_takes_what_waited_though_a_save_was_cut(
    arrives, email, start, checkpoint, monkeypatch
):
    monkeypatch.setattr(retry, "FIRST_DELAY", 0.001)
    ids = put(email, 15)
    driver = start(checkpoint, now=True, max_jobs_per_trigger=15)
    driver.call("initialOffset")
    store = driver.store
    write, cut = store.write_keys, list[bool]()

    def cut_once(tenant, writes):
        if len(writes) > 1 and not cut:
            cut.append(arrives and write(tenant, writes))
            put(email, 5, prefix="late")
            raise StoreUnavailable("cut")
        return write(tenant, writes)

    monkeypatch.setattr(store, "write_keys", cut_once)
    driver.run()

    assert cut
    assert checkpoint.ids == ids


def test_batches_are_bounded_in_bytes(email, start, checkpoint):
    email.enqueue_many([NewJob("x" * 900_000, id=f"j{number}") for number in range(20)])

    start(checkpoint, max_jobs_per_trigger=1000, max_bytes_per_trigger=4 << 20).run()

    sizes = [sum(len(row["payload"]) for row in rows) for rows in checkpoint.lake.values()]
    assert len(checkpoint.rows) == 20
    assert max(sizes) < 5 << 20


def test_batches_are_bounded_in_bytes_though_jobs_grow_suddenly(email, start, checkpoint):
    payloads = ["x"] * 600 + ["x" * 50_000] * 300
    ids = [f"j{number}" for number in range(900)]
    email.enqueue_many([NewJob(text, id=id) for text, id in zip(payloads, ids, strict=True)])

    start(checkpoint, max_jobs_per_trigger=1000, max_bytes_per_trigger=1 << 20).run()

    sizes = [sum(len(row["payload"]) for row in rows) for rows in checkpoint.lake.values()]
    assert checkpoint.ids == ids
    assert max(sizes) <= (1 << 20) + 50_002
    assert email.counts()[State.COMPLETED] == 900
    assert {row["attempts"] for row in checkpoint.rows} == {1}


def test_small_jobs_are_claimed_in_large_numbers(email, start, checkpoint, monkeypatch):
    put(email, 3000)
    driver = start(checkpoint, max_jobs_per_trigger=3000)
    claims, claim = [], driver.store.claim

    def noting(queue, request, *more):
        claims.append(request.limit)
        return claim(queue, request, *more)

    monkeypatch.setattr(driver.store, "claim", noting)
    driver.trigger()

    assert claims == [16, 64, 256, 1000, 1000, 664]


def test_only_the_kinds_asked_for_are_claimed(email, start, checkpoint):
    put(email, 2, kind="a")
    put(email, 2, prefix="k", kind="b")
    start(checkpoint, kinds="b, c").run()

    assert checkpoint.ids == ["k0", "k1"]


class TestPoison:
    def crash(self, start, checkpoint, poison, most=20):
        """A driver that dies of some jobs, started again until it lives."""
        for deaths in range(most):
            driver = start(checkpoint, max_replays=2, max_jobs_per_trigger=50)
            read = driver.read

            def read_or_die(part, read=read):
                rows = read(part)
                if any(poison(row["id"]) for row in rows):
                    raise Died
                return rows

            driver.read = read_or_die
            try:
                driver.run()
            except Died:
                driver.die()
            else:
                return deaths
        return most

    def test_it_ends_in_the_dlq_and_harms_no_other(self, email, start, checkpoint, monkeypatch):
        monkeypatch.setattr("ackline.spark.streams.claims.replay.SPLIT_INTO", 7)
        ids = put(email, 50)

        deaths = self.crash(start, checkpoint, "j13".__eq__)

        # Twice in the whole batch of 50, twice in a piece of 7, twice alone, and twice more when
        # the others are done.
        assert deaths == 4 * 2
        assert email.status("j13").state is State.FAILED
        assert "never committed" in email.status("j13").record.failure.message
        assert sorted(checkpoint.ids) == sorted(set(ids) - {"j13"})
        assert all(job.attempt == 1 for job in email.jobs(limit=1000).jobs)

    def test_a_sink_that_is_away_costs_no_job(self, email, start, checkpoint):
        ids = put(email, 2)
        self.crash(start, checkpoint, lambda _id: True, most=12)

        start(checkpoint).run()

        assert sorted(checkpoint.ids) == ids
        assert all(job.attempt == 1 for job in email.jobs().jobs)

    def test_one_that_is_alone_is_buried_once_another_job_was_done(self, email, start, checkpoint):
        put(email, 1, prefix="poison")
        assert self.crash(start, checkpoint, "poison0".__eq__, most=6) == 6
        assert email.status("poison0").state is State.PROCESSING
        put(email, 2)

        self.crash(start, checkpoint, "poison0".__eq__)

        assert email.status("poison0").state is State.FAILED
        assert sorted(checkpoint.ids) == ["j0", "j1"]

    def test_it_is_in_no_row_though_its_driver_dies_as_it_is_buried(
        self, email, start, checkpoint, monkeypatch, caplog
    ):
        put(email, 1, prefix="poison")
        self.crash(start, checkpoint, "poison0".__eq__, most=4)
        put(email, 1)
        apply = type(email.store).apply

        def bury_and_die(store, queue, steps):
            verdicts = apply(store, queue, steps)
            if all(step.to is not State.FAILED for step in steps):
                return verdicts
            monkeypatch.undo()
            raise Died

        monkeypatch.setattr(type(email.store), "apply", bury_and_die)
        while email.status("poison0").state is not State.FAILED:
            self.crash(start, checkpoint, "poison0".__eq__, most=1)
        caplog.clear()

        start(checkpoint, max_replays=9).run()

        assert checkpoint.ids == ["j0"]
        assert "delivered again" not in caplog.text

    def test_what_is_split_twice_stays_in_order(self, email, start, checkpoint, monkeypatch):
        """So whatever waits behind a suspect proves that the sink works."""
        monkeypatch.setattr("ackline.spark.streams.claims.replay.SPLIT_INTO", 2)
        ids = put(email, 8)
        for _ in range(3):
            with pytest.raises(Died):
                start(checkpoint, max_replays=1).trigger("read")

        start(checkpoint, max_replays=2).run()

        assert [len(rows) for rows in checkpoint.lake.values()] == [2, 2, 4]
        assert checkpoint.ids == ids

    def test_what_waits_is_written_once(self, email, start, checkpoint, monkeypatch):
        put(email, 50)
        for _ in range(2):
            with pytest.raises(Died):
                start(checkpoint, max_replays=1, max_jobs_per_trigger=50).trigger("read")
        driver = start(checkpoint, max_replays=2)
        driver.trigger()
        store, written = driver.store, list[int]()
        write = store.write_keys

        def noting(tenant, writes):
            written.append(len(writes))
            return write(tenant, writes)

        monkeypatch.setattr(store, "write_keys", noting)
        driver.run()

        assert len(checkpoint.ids) == 50
        # The state, a manifest, what waits no longer, and a manifest that is old enough to go.
        assert max(written) <= 4

    def test_what_an_unanswered_write_made_wait_does_not_wait_twice(
        self, email, queues, monkeypatch
    ):
        """The second try knows that a job of the first was lost meanwhile."""
        room = ManifestStore(queues.store, email.key, "lake")
        room.begin(lambda _state: None)
        write = queues.store.write_keys

        def unanswered(tenant, writes):
            write(tenant, writes)
            monkeypatch.undo()
            raise StoreUnavailable("the connection broke")

        monkeypatch.setattr(queues.store, "write_keys", unanswered)
        a, b, c = (PendingBatch(((id, 1),)) for id in "abc")
        with pytest.raises(StoreUnavailable):
            room.save(room.state, added=[a, b, c])
        room.save(room.state, added=[a, c])
        room.load()

        assert room.pending == {1: a, 0: c}

    def test_a_suspect_is_kept_though_a_save_went_unanswered(
        self, email, start, checkpoint, monkeypatch
    ):
        monkeypatch.setattr(retry, "FIRST_DELAY", 0.001)
        put(email, 1, prefix="suspect")
        driver = start(checkpoint)
        before = ManifestStore(email.store, email.key, "lake")
        before.begin(lambda _state: None)
        [job] = email.claim(1, worker=driver.reader.options.worker_id, lease=LEASE)
        before.save(before.state, added=[PendingBatch(leases_of([job.record]), 1)])
        driver.call("initialOffset")
        store = driver.store
        write, cut = store.write_keys, list[bool]()

        def break_once(tenant, writes):
            answer = write(tenant, writes)
            if len(writes) > 1 and not cut:
                cut.append(answer)
                put(email, 1)
                raise StoreUnavailable("the connection broke")
            return answer

        monkeypatch.setattr(store, "write_keys", break_once)
        driver.trigger()

        assert checkpoint.ids == ["suspect0"]


class TestOutcomes:
    def test_who_writes_none_fails_the_job(self, email, start, checkpoint):
        put(email, 2)
        driver = start(checkpoint, ack="outcome")
        driver.trigger()
        job = checkpoint.rows[0]
        record = email.store.get(email.key, [job["id"]])[0]
        email.complete(email.wrap(record), "done")

        driver.trigger()

        assert email.result("j0") == "done"
        assert email.status("j1").state is State.FAILING
        assert "without an outcome" in email.status("j1").record.failure.message

    @pytest.fixture
    def settle(self, address):
        """Writes the same outcome for all rows, but for those named with one of their own."""

        def call(rows, *, outcome="complete", **own):
            options = {"store": "x", "table": "outcomes", "queue": "email"}
            asked = read_options("write", options)
            table = pyarrow.table(
                {
                    "id": [row["id"] for row in rows],
                    "token": [row["token"] for row in rows],
                    "outcome": [own.get(row["id"], outcome) for row in rows],
                }
            )
            writer = OutcomesTableWriter(asked, address, from_arrow_schema(table.schema))
            writer.commit([writer.write(iter(table.to_batches()))])

        return call

    @pytest.fixture
    def killed(self, email, start, checkpoint, settle):
        """A driver that dies after it has written outcomes, and before its commit."""
        put(email, 4)
        first = start(checkpoint, ack="outcome")
        with pytest.raises(Died):
            first.trigger(die_at="sunk")
        first.die()
        settle(checkpoint.rows, j1="fail", j2="dead")
        return checkpoint

    def test_a_repeated_batch_has_all_its_jobs_however_they_were_settled(
        self, killed, start, settle
    ):
        before, killed.lake = killed.rows, {}

        start(killed, ack="outcome").trigger()

        assert [(row["id"], row["token"], row["attempts"]) for row in killed.rows] == [
            (row["id"], row["token"], row["attempts"]) for row in before
        ]
        settle(killed.rows, j1="fail", j2="dead")

    def test_the_first_outcome_stands(self, killed, email, start, settle, caplog):
        start(killed, ack="outcome").trigger()

        settle(killed.rows, j0="dead", j2="complete")

        # The others have the same outcome as before.
        assert "3 rows" in caplog.text
        states = [email.status(id).state for id in ("j0", "j1", "j2")]
        assert states == [State.COMPLETED, State.FAILING, State.FAILED]

    def test_a_batch_has_what_failed_in_it_though_another_has_claimed_it_since(
        self, killed, email, start, clock
    ):
        clock.advance(LEASE / 2)
        taken = email.claim(1)
        before, killed.lake = killed.ids, {}

        start(killed, ack="outcome").trigger()

        assert [job.id for job in taken] == ["j1"]
        assert killed.ids == before

    def test_what_lapsed_is_not_in_a_repeated_batch(self, email, start, checkpoint, clock):
        put(email, 2)
        first = start(checkpoint, ack="outcome")
        with pytest.raises(Died):
            first.trigger(die_at="sunk")
        first.die()
        clock.advance(LEASE + 1)

        start(checkpoint, ack="outcome").trigger()

        assert checkpoint.lake == {0: []}

    def test_completed_jobs_stay_for_a_replay(self, email, start, checkpoint, settle, clock):
        put(email, 2, result_ttl=1.0)
        first = start(checkpoint, ack="outcome")
        with pytest.raises(Died):
            first.trigger(die_at="sunk")
        first.die()
        settle(checkpoint.rows)
        clock.advance(LEASE / 2)
        email.store.prune(email.key, 100, None)

        start(checkpoint, ack="outcome").run()

        assert checkpoint.ids == ["j0", "j1"]


@pytest.mark.every_store
class TestLostAnswers:
    """The store did what was asked for, and the connection broke before it could say so."""

    @pytest.mark.parametrize("verb", ["write_keys", "claim", "apply", "heartbeat"])
    @pytest.mark.parametrize("times", [1, 2, 3])
    def test_each_step_is_safe_to_repeat(self, verb, times, email, start, checkpoint, monkeypatch):
        monkeypatch.setattr(retry, "FIRST_DELAY", 0.001)
        ids = put(email, 25)
        driver = start(checkpoint)
        driver.call("initialOffset")
        store = driver.store
        act, left = getattr(store, verb), [times]

        def act_and_break(*arguments, **options):
            answer = act(*arguments, **options)
            left[0] -= 1
            if not left[0]:
                raise StoreUnavailable("the connection broke")
            return answer

        monkeypatch.setattr(store, verb, act_and_break)
        while driver.trigger():
            driver.beat()

        assert left[0] <= 0
        assert sorted(checkpoint.ids) == sorted(ids)
        assert len(checkpoint.appended) == 25
        assert email.counts()[State.COMPLETED] == 25
        start(checkpoint).run()
        assert len(checkpoint.appended) == 25

    def test_a_store_that_stays_away_ends_the_query(self, email, start, checkpoint, monkeypatch):
        """The control."""
        put(email, 5)
        driver = start(checkpoint, retry_for=0.0)
        driver.call("initialOffset")

        def broken(*arguments, **options):
            raise StoreUnavailable("gone")

        monkeypatch.setattr(driver.store, "claim", broken)
        with pytest.raises(StoreUnavailable):
            driver.trigger()
