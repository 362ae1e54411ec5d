"""Jobs delivered to waiting workers are never lost on the way, and never arrive twice."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from redis.exceptions import ConnectionError
from tests.stores.redis.conftest import QUEUE, SOON, OpenStore, done, drafts, lose_deliveries, wants
from tests.waiting import until

import ackline.stores.redis as package
from ackline.core.config import DEFAULTS, QueueSettings
from ackline.core.errors import StoreUnavailable
from ackline.core.events import Act
from ackline.core.job import Draft, Options, Record, State
from ackline.core.lifecycle import Transition, release
from ackline.queue.consume import MAX_POLL_INTERVAL
from ackline.stores.contract import ClaimResult, DeliverableClaim, DeliveredJobs
from ackline.stores.redis import RedisStore
from ackline.stores.redis.direct_delivery import DeliveryListener
from ackline.stores.redis.io.client import DirectClient


class Waiter:
    """A worker whose claims name its listener, so that jobs may be delivered to it."""

    def __init__(self, store: RedisStore, worker: str, kinds: frozenset[str] | None = None) -> None:
        self.store = store
        self.worker = worker
        self.kinds = kinds
        listener = store.listen([QUEUE], "ready", kinds)
        assert isinstance(listener, DeliveryListener)
        self.listener = listener
        self.inbox = listener.inbox

    def claim(
        self,
        limit: int = 1,
        transitions: Sequence[Transition] = (),
        *,
        lease: float = 30.0,
        free: int | None = None,
    ) -> ClaimResult:
        request = DeliverableClaim(
            worker=self.worker,
            limit=limit,
            lease=lease,
            kinds=self.kinds,
            listener=self.listener,
            free_capacity=limit if free is None else free,
        )
        return self.store.claim(QUEUE, request, transitions)

    def delivered(self) -> DeliveredJobs:
        return self.listener.delivered(self.worker)

    def waits(self) -> bool:
        """Claim; whether there was no job, so that one may be delivered."""
        return not self.claim().jobs and not self.delivered().jobs

    def receive(self) -> list[Record]:
        """The jobs that arrive by message, without a claim."""
        assert self.listener.wait(SOON)
        return self.delivered().jobs

    def jobs(self, limit: int = 1) -> list[Record]:
        """As a worker gets them: those that have arrived, then those that a claim returns."""
        jobs = self.delivered().jobs
        if len(jobs) < limit:
            jobs += self.claim(limit - len(jobs)).jobs
        return jobs + self.delivered().jobs

    def ids(self, limit: int = 1) -> list[str]:
        return [job.id for job in self.jobs(limit)]


@pytest.fixture
def waiter(store) -> Iterator[Waiter]:
    """A worker that waits for a job, because there was none when it claimed."""
    store.enqueue(QUEUE, [])
    waiter = Waiter(store, "w")
    assert waiter.waits()
    yield waiter
    waiter.listener.close()


def scripts_run(client) -> int:
    """How many scripts the server has run so far."""
    return int(client.info("commandstats")["cmdstat_evalsha"]["calls"])


def state_of(store: RedisStore, id: str = "id0") -> State:
    [job] = store.get(QUEUE, [id])
    assert job is not None
    return job.state


class TestDelivery:
    def test_a_waiting_worker_gets_the_job_without_a_claim(self, store, waiter, client):
        store.enqueue(QUEUE, drafts(1))
        assert state_of(store) is State.PROCESSING

        before = scripts_run(client)
        [job] = waiter.receive()
        assert scripts_run(client) == before

        assert (job.id, job.worker, job.attempts, job.payload) == ("id0", "w", 1, b"x" * 10)
        [seen] = store.get(QUEUE, ["id0"])
        assert (job.token, job.deadline, job.started_at, job.created_at) == (
            seen.token,
            seen.deadline,
            seen.started_at,
            seen.created_at,
        )
        assert store.apply(QUEUE, [done(job)])[0].applied

    def test_the_claim_that_settles_a_job_lets_the_next_one_be_delivered(
        self, store, waiter, client
    ):
        for n in range(3):
            store.enqueue(QUEUE, drafts(1, start=n))
            [job] = waiter.receive()
            assert job.id == f"id{n}"

            before = scripts_run(client)
            claimed = waiter.claim(5, [done(job)])
            assert scripts_run(client) == before + 1
            assert (claimed.jobs, claimed.may_have_more) == ([], False)
            assert [verdict.applied for verdict in claimed.verdicts] == [True]

    def test_counts_journal_and_leases_are_those_of_a_claim(self, store, waiter):
        store.enqueue(QUEUE, [Draft("id0", "mail", b"1", priority=7)])

        events = store.events(QUEUE, None, 10)
        assert [(event.act, event.to) for event in events] == [
            (Act.ENQUEUE, State.QUEUED),
            (Act.CLAIM, State.PROCESSING),
        ]
        assert (events[0].priority, events[1].worker, events[1].attempt) == (7, "w", 1)
        counts = store.describe("default", "mail")[0].counts
        assert {state: count for state, count in counts.items() if count} == {State.PROCESSING: 1}
        assert [lease.id for lease in store.leases(QUEUE, worker="w")] == ["id0"]

    def test_each_job_has_its_own_token_though_the_clock_stands_still(self, timed):
        timed.enqueue(QUEUE, [])
        waiter = Waiter(timed, "w")

        tokens = []
        for n in range(3):
            assert waiter.waits()
            timed.enqueue(QUEUE, drafts(1, start=n))
            tokens += [job.token for job in waiter.receive()]

        assert tokens == sorted(set(tokens))
        assert len(tokens) == 3

    def test_a_job_is_delivered_to_only_one_worker(self, store, open_store: OpenStore):
        store.enqueue(QUEUE, [])
        waiters = [Waiter(open_store(), f"w{n}") for n in range(5)]
        for waiter in waiters:
            assert waiter.waits()

        store.enqueue(QUEUE, drafts(1))

        [seen] = store.get(QUEUE, ["id0"])
        woken = [waiter for waiter in waiters if waiter.listener.wait(0.1)]
        assert [waiter.worker for waiter in woken] == [seen.worker]
        assert woken[0].ids() == ["id0"]

    def test_jobs_are_spread_over_the_waiting_workers(self, store, open_store: OpenStore):
        store.enqueue(QUEUE, [])
        waiters = [Waiter(open_store(), f"w{n}") for n in range(3)]
        received = {waiter.worker: 0 for waiter in waiters}
        for n in range(60):
            for waiter in waiters:
                received[waiter.worker] += len(waiter.jobs())
                waiter.claim()
            store.enqueue(QUEUE, drafts(1, start=n))

        assert min(received.values()) >= 2  # by chance, one in a hundred million runs has fewer

    def test_each_job_is_delivered_to_another_worker(self, store, open_store: OpenStore):
        store.enqueue(QUEUE, [])
        waiters = [Waiter(open_store(), f"w{n}") for n in range(4)]
        for waiter in waiters:
            assert waiter.waits()

        for n in range(4):
            store.enqueue(QUEUE, drafts(1, start=n))

        for waiter in waiters:
            assert waiter.listener.wait(SOON)
        received = [id for waiter in waiters for id in waiter.ids()]
        assert sorted(received) == ["id0", "id1", "id2", "id3"]


class TestNotDelivered:
    def test_to_a_closed_listener(self, store, waiter, client, prefix):
        waiter.listener.close()
        until(lambda: not client.pubsub_channels(f"{prefix}:*"))

        store.enqueue(QUEUE, drafts(1))

        assert state_of(store) is State.QUEUED
        assert [job.id for job in store.claim(QUEUE, wants(1, "other")).jobs] == ["id0"]

    def test_to_a_worker_that_has_stopped_waiting(self, store, waiter):
        assert waiter.claim(limit=0).jobs == []

        store.enqueue(QUEUE, drafts(1))

        assert state_of(store) is State.QUEUED

    def test_to_a_worker_whose_claim_was_full(self, store, waiter):
        store.enqueue(QUEUE, drafts(2))
        assert len(waiter.claim().jobs) == 1
        assert len(waiter.claim().jobs) == 1

        store.enqueue(QUEUE, drafts(1, start=2))

        assert state_of(store, "id2") is State.QUEUED

    def test_a_second_job_before_the_first_was_received(self, store, waiter):
        for n in range(2):
            store.enqueue(QUEUE, drafts(1, start=n))

        assert state_of(store, "id1") is State.QUEUED
        assert [job.id for job in waiter.receive()] == ["id0"]
        assert [job.id for job in waiter.claim(5).jobs] == ["id1"]

    def test_a_kind_that_nobody_waits_for(self, store):
        store.enqueue(QUEUE, [])
        waiter = Waiter(store, "w", frozenset({"video"}))
        assert waiter.waits()

        store.enqueue(QUEUE, drafts(1))
        assert state_of(store) is State.QUEUED

        store.enqueue(QUEUE, [Draft("film", "video", b"1")])
        assert waiter.listener.wait(SOON)
        assert waiter.ids() == ["film"]

    @pytest.mark.parametrize(
        "draft",
        [
            Draft("id0", "mail", b"1", delay=60.0),
            Draft("id0", "mail", b"1", options=Options(group="g")),
            Draft("id0", "mail", b"x" * 70_000),
        ],
        ids=["scheduled", "in a group", "large"],
    )
    def test_a_job_that_is_not_simply_the_next(self, store, waiter, draft):
        store.enqueue(QUEUE, [draft])

        assert state_of(store) in (State.QUEUED, State.SCHEDULED)
        if draft.delay == 0:
            assert waiter.listener.wait(SOON)
            assert waiter.ids() == ["id0"]

    def test_to_a_worker_without_a_recent_claim(self, timed, clock):
        """It may be suspended: a waiting worker claims every second."""
        timed.enqueue(QUEUE, [])
        waiter = Waiter(timed, "w")
        assert waiter.waits()

        clock.advance(5.0)
        timed.enqueue(QUEUE, drafts(1))

        assert state_of(timed) is State.QUEUED
        assert waiter.listener.wait(SOON)
        assert waiter.ids() == ["id0"]

    def test_with_a_lease_too_short_to_recover_a_lost_message(self, store, waiter):
        store.enqueue(QUEUE, [Draft("id0", "mail", b"1", options=Options(lease=1.0))])

        assert state_of(store) is State.QUEUED
        assert waiter.listener.wait(SOON)
        assert waiter.ids() == ["id0"]

    @pytest.mark.parametrize("command", ["pubsub", "hrandfield"])
    def test_by_a_user_without_permission_for_pubsub(
        self, store, waiter, client, server, open_store, prefix, command
    ):
        """The job is stored like any other."""
        may = ["~*", "&*", "+@all", f"-{command}"]
        client.execute_command("ACL", "SETUSER", "producer", "reset", "on", ">secret", *may)
        url = f"{server.url.replace('://', '://producer:secret@')}?prefix={prefix}"
        producer = open_store(url)

        producer.enqueue(QUEUE, drafts(1))

        assert state_of(store) is State.QUEUED
        assert waiter.listener.wait(SOON)
        assert waiter.ids() == ["id0"]

    def test_in_a_paused_queue(self, store, waiter):
        store.configure(QUEUE, QueueSettings(paused=True))
        assert waiter.waits()

        store.enqueue(QUEUE, drafts(1))

        assert state_of(store) is State.QUEUED

    def test_behind_queued_jobs(self, store, waiter):
        store.enqueue(QUEUE, drafts(3))
        store.claim(QUEUE, wants(5, "other", frozenset({"none"})))  # requests a wake-up

        store.enqueue(QUEUE, drafts(1, start=3))

        assert state_of(store, "id3") is State.QUEUED
        assert waiter.ids(limit=9) == ["id0", "id1", "id2", "id3"]

    def test_before_a_queued_job_of_another_kind(self, store):
        """The worker was notified of the first and is about to claim it."""
        store.enqueue(QUEUE, [])
        waiter = Waiter(store, "w", frozenset({"mail", "video"}))
        assert waiter.waits()
        store.enqueue(QUEUE, [Draft("first", "video", b"1", 9, options=Options(group="g"))])
        store.claim(QUEUE, wants(1, "other", frozenset({"none"})))  # requests a wake-up

        store.enqueue(QUEUE, [Draft("second", "mail", b"1", 0)])

        assert waiter.ids() == ["first"]

    def test_an_existing_id(self, store, waiter):
        store.enqueue(QUEUE, drafts(1))
        [job] = waiter.receive()
        assert waiter.waits()

        [receipt] = store.enqueue(QUEUE, drafts(1))

        assert (receipt.accepted, receipt.state) == (False, State.PROCESSING)
        assert not waiter.listener.wait(0.05)
        assert store.apply(QUEUE, [done(job)])[0].applied


class TestLost:
    def test_the_next_claim_returns_a_job_whose_message_was_lost(self, store, waiter, monkeypatch):
        lost = lose_deliveries(monkeypatch)
        store.enqueue(QUEUE, drafts(1))
        waiter.listener.wait(SOON)
        assert len(lost) == 1

        assert waiter.claim().jobs == []
        [job] = waiter.delivered().jobs

        [seen] = store.get(QUEUE, ["id0"])
        assert (job.id, job.token, job.deadline, job.attempts) == (
            "id0",
            seen.token,
            seen.deadline,
            1,
        )
        assert store.apply(QUEUE, [done(job)])[0].applied

    def test_a_connection_that_broke_loses_nothing(self, store, waiter, client):
        store.enqueue(QUEUE, drafts(1))
        for one in client.client_list(_type="pubsub"):
            client.client_kill(one["addr"])

        until = time.monotonic() + SOON
        found: list[str] = []
        while not found and time.monotonic() < until:
            waiter.listener.wait(1.0)
            found = waiter.ids()

        assert found == ["id0"]

    def test_a_job_that_comes_by_message_and_by_claim_arrives_once(
        self, store, waiter, monkeypatch
    ):
        late = lose_deliveries(monkeypatch)
        store.enqueue(QUEUE, drafts(1))
        waiter.listener.wait(SOON)
        assert waiter.ids() == ["id0"]

        waiter.inbox.add_message(late[0])

        assert waiter.ids() == []

    def test_a_job_on_its_way_counts_for_the_limit(self, store, waiter):
        """A claim for one job returns one, even if the message was not read before it."""
        for n in range(2):
            store.enqueue(QUEUE, drafts(1, start=n))

        claimed = waiter.claim()
        assert (claimed.jobs, claimed.may_have_more) == ([], True)
        assert [job.id for job in waiter.delivered().jobs] == ["id0"]
        waiter.listener.wait(SOON)
        assert waiter.ids() == ["id1"]

    def test_a_job_that_another_worker_has_is_not_returned(self, store, waiter, monkeypatch):
        lose_deliveries(monkeypatch)
        store.enqueue(QUEUE, drafts(1))
        [delivered] = store.get(QUEUE, ["id0"])
        store.apply(QUEUE, [release(delivered, DEFAULTS, "taken back")])
        [other] = store.claim(QUEUE, wants(1, "other")).jobs

        assert waiter.ids() == []
        assert store.apply(QUEUE, [done(other)])[0].applied

    def test_a_claim_for_no_jobs_returns_the_job_on_its_way(self, store, waiter):
        store.enqueue(QUEUE, drafts(1))

        assert waiter.claim(limit=0).jobs == []
        assert [job.id for job in waiter.delivered().jobs] == ["id0"]

    def test_a_failed_claim_keeps_the_jobs_that_had_arrived(self, store, waiter, monkeypatch):
        store.enqueue(QUEUE, drafts(1))
        [first] = waiter.receive()
        assert waiter.waits()
        store.enqueue(QUEUE, drafts(1, start=1))
        waiter.listener.wait(SOON)

        def broken(*_command: object) -> None:
            raise ConnectionError("cut off")

        with monkeypatch.context() as patch:
            patch.setattr(DirectClient, "execute_command", broken)
            with pytest.raises(StoreUnavailable):
                waiter.claim(5, [done(first)])

        assert [job.id for job in waiter.delivered().jobs] == ["id1"]
        assert waiter.claim(5, [done(first)]).verdicts[0].applied

    def test_a_claim_whose_answer_is_lost_loses_no_delivery(self, store, waiter, monkeypatch):
        """The next claim returns the job again, because its token was never received."""
        lose_deliveries(monkeypatch)
        store.enqueue(QUEUE, drafts(1))
        run = DirectClient.execute_command

        def cut(*command: Any) -> Any:
            run(*command)
            raise ConnectionError("cut off")

        with monkeypatch.context() as patch:
            patch.setattr(DirectClient, "execute_command", cut)
            with pytest.raises(StoreUnavailable):
                waiter.claim()

        assert waiter.ids() == ["id0"]


class TestTime:
    def test_a_job_that_lapsed_on_its_way_is_not_returned(self, timed, clock, monkeypatch):
        timed.enqueue(QUEUE, [])
        waiter = Waiter(timed, "w")
        assert waiter.waits()
        lose_deliveries(monkeypatch)
        timed.enqueue(QUEUE, drafts(1))

        clock.advance(31.0)
        claimed = waiter.claim()

        assert (claimed.jobs, waiter.delivered().jobs) == ([], [])
        assert [job.id for job in claimed.lapsed] == ["id0"]

    def test_a_job_that_lapsed_in_the_inbox_is_not_started(self, store, waiter):
        """Its worker was suspended for longer than the lease, others may have the job."""
        store.enqueue(QUEUE, drafts(1))
        waiter.listener.wait(SOON)
        waiter.inbox.set_clock_reference(time.monotonic() - 31.0, store.now())

        assert waiter.ids() == []

    def test_a_clock_that_is_set_back_loses_no_job(self, timed, clock):
        timed.enqueue(QUEUE, [])
        waiter = Waiter(timed, "w")
        assert waiter.waits()

        clock.advance(-40.0)
        timed.enqueue(QUEUE, drafts(1))

        [job] = waiter.receive()
        assert (job.id, job.deadline) == ("id0", clock.now() + 30.0)

    def test_pruning_deletes_inboxes_of_dead_workers(self, timed, clock, client, prefix):
        """Even if jobs are only enqueued in batches, so that none is delivered."""
        key = f"{prefix}:{{default/mail}}:inboxes"
        timed.enqueue(QUEUE, [])
        killed, living = Waiter(timed, "killed"), Waiter(timed, "living")
        assert killed.waits()
        clock.advance(61.0)
        assert living.waits()

        timed.prune(QUEUE, 100)

        assert client.hkeys(key) == [living.inbox.name]

    def test_a_waiting_worker_does_not_write_at_every_claim(
        self, timed, clock, waiter, client, prefix
    ):
        key = f"{prefix}:{{default/mail}}:inboxes"
        timed.enqueue(QUEUE, [])
        idle = Waiter(timed, "idle")
        assert idle.waits()
        first = client.execute_command("HGET", key, idle.inbox.name, NEVER_DECODE=True)

        clock.advance(1.0)
        assert idle.waits()
        assert client.execute_command("HGET", key, idle.inbox.name, NEVER_DECODE=True) == first

        clock.advance(1.0)
        assert idle.waits()
        assert client.execute_command("HGET", key, idle.inbox.name, NEVER_DECODE=True) != first

    def test_a_lease_counts_from_when_it_was_delivered(self, store, waiter):
        claimed_at = time.monotonic()
        store.enqueue(QUEUE, drafts(1))
        enqueued_at = time.monotonic()
        waiter.listener.wait(SOON)
        time.sleep(0.05)  # the worker was busy, or stopped: the lease runs all the while

        delivered = waiter.delivered()

        assert len(delivered.jobs) == 1
        assert claimed_at - 0.02 < delivered.leased_at < enqueued_at

    def test_workers_claim_often_enough_for_the_timeouts(self):
        text = (Path(package.__file__).parent / "lua/lib/direct_delivery.lua").read_text()
        found = re.search(
            r"RENEW_AFTER, INBOX_TIMEOUT, FORGET_AFTER = ([\d.]+), (\d+), (\d+)", text
        )
        shortest = re.search(r"MIN_LEASE = (\d+)", text)
        assert found is not None
        assert shortest is not None
        renew_after, inbox_timeout, forget_after = map(float, found.groups())

        assert renew_after + 2 * MAX_POLL_INTERVAL < inbox_timeout < forget_after
        assert float(shortest[1]) > 2 * MAX_POLL_INTERVAL

    def test_inboxes_of_workers_that_died_do_not_pile_up(self, timed, clock, client, prefix):
        timed.enqueue(QUEUE, [])
        for n in range(20):
            waiter = Waiter(timed, f"w{n}")
            assert waiter.waits()
            if n == 0:
                timed.enqueue(QUEUE, drafts(1, start=1000))  # the worker dies with the job
            waiter.listener.close()
        key = f"{prefix}:{{default/mail}}:inboxes"
        assert client.hlen(key) == 20

        for n in range(5):
            timed.enqueue(QUEUE, drafts(1, start=n))
            timed.claim(QUEUE, wants(9, "other"))  # requests a wake-up for the next

        assert client.hlen(key) == 20  # they may just be slow

        clock.advance(5.0)
        for n in range(50):
            timed.enqueue(QUEUE, drafts(1, start=5 + n))
            timed.claim(QUEUE, wants(9, "other"))
        assert client.hlen(key) == 0


class TestWaitingAgain:
    """The claim that settles a delivered job also returns other jobs."""

    @pytest.fixture
    def delivered(self, store: RedisStore, waiter: Waiter) -> Record:
        """A job that was delivered to the waiter."""
        store.enqueue(QUEUE, drafts(1))
        [job] = waiter.receive()
        return job

    def test_a_queued_job_is_claimed(self, store, waiter, delivered):
        store.enqueue(QUEUE, drafts(2, start=1))

        claimed = waiter.claim(1, [done(delivered)])

        assert [job.id for job in claimed.jobs] == ["id1"]
        assert state_of(store) is State.COMPLETED

    def test_a_job_that_the_same_call_queues_is_claimed(self, waiter, delivered):
        claimed = waiter.claim(1, [release(delivered, DEFAULTS, "stopped")])

        assert [job.id for job in claimed.jobs] == ["id0"]

    def test_a_job_whose_message_was_lost_is_returned(self, store, waiter, delivered, monkeypatch):
        assert waiter.waits()  # and then gets one that it never sees
        lost = lose_deliveries(monkeypatch)
        store.enqueue(QUEUE, drafts(1, start=1))
        until(lambda: waiter.listener.wait(0.05) or lost)

        waiter.claim(1, [done(delivered)])

        assert [job.id for job in waiter.delivered().jobs] == ["id1"]

    def test_a_worker_whose_inbox_was_deleted_waits_again(
        self, store, waiter, delivered, client, prefix
    ):
        client.delete(f"{prefix}:{{default/mail}}:inboxes")

        waiter.claim(1, [done(delivered)])
        store.enqueue(QUEUE, drafts(1, start=1))

        assert [job.id for job in waiter.receive()] == ["id1"]

    def test_a_refused_transition_is_reported(self, store, waiter, delivered):
        store.apply(QUEUE, [release(delivered, DEFAULTS, "taken back")])
        [again] = store.claim(QUEUE, wants(1, "other")).jobs

        [verdict] = waiter.claim(1, [done(delivered)]).verdicts

        assert (verdict.applied, verdict.state) == (False, State.PROCESSING)
        assert store.apply(QUEUE, [done(again)])[0].applied

    def test_the_request_of_an_inbox_is_renewed(self, timed, clock):
        """Otherwise a lease that was reconfigured would never take effect."""
        timed.enqueue(QUEUE, [])
        waiter = Waiter(timed, "w")
        assert waiter.waits()
        clock.advance(2.0)
        assert waiter.claim(lease=60.0).jobs == []

        timed.enqueue(QUEUE, drafts(1))

        [job] = waiter.receive()
        assert job.deadline == clock.now() + 60.0


def test_a_worker_can_wait_for_thousands_of_kinds(store):
    """More than fit on a script's stack."""
    store.enqueue(QUEUE, [])
    waiter = Waiter(store, "w", frozenset({"mail", *map(str, range(9000))}))
    assert waiter.waits()

    receipts = store.enqueue(QUEUE, drafts(1))

    assert [receipt.accepted for receipt in receipts] == [True]
    assert waiter.ids() == ["id0"]
    waiter.listener.close()
