"""A store whose server is flushed while it is open."""

from __future__ import annotations

import pytest
from tests.harness.servers.redis import RedisServer
from tests.stores.redis.conftest import BEAT, QUEUE, REQUEST, SOON, done, drafts, wants

from ackline.core.errors import StoreError
from ackline.core.job import State
from ackline.core.lifecycle import Verdict
from ackline.stores.contract import Filter, LeaseExtension


class TestScripts:
    def test_every_verb_works_after_the_scripts_were_flushed(self, store, client):
        flushed = client.script_flush

        assert flushed()
        store.enqueue(QUEUE, drafts(2))
        assert flushed()
        first, _ = store.claim(QUEUE, REQUEST).jobs
        assert flushed()
        assert (
            store.heartbeat(QUEUE, BEAT, [LeaseExtension(first.id, first.token, 60.0)]).lost == []
        )
        assert flushed()
        assert store.apply(QUEUE, [done(first)]) == [Verdict(True, State.COMPLETED)]
        assert flushed()
        assert store.promote(QUEUE, 10) == store.prune(QUEUE, 10) == 0
        assert flushed()
        assert store.purge(QUEUE, Filter(), 10) == 2

    def test_a_script_runs_once_when_it_was_flushed(self, store, client):
        store.enqueue(QUEUE, drafts(3))
        client.script_flush()

        store.claim(QUEUE, wants(1))

        assert store.describe(None)[0].counts[State.PROCESSING] == 1

    def test_a_durable_change_works_after_the_scripts_were_flushed(self, open_store):
        with RedisServer(persistence="always") as server, server.client() as client:
            if "waitaof" not in client.command_list():
                pytest.skip("this server cannot wait for a sync")
            store = open_store(f"{server.url}?fsync=yes")
            store.enqueue(QUEUE, drafts(1))
            client.script_flush()

            assert store.enqueue(QUEUE, drafts(2))[1].accepted


@pytest.fixture
def wiped(open_store):
    """A server that was flushed while its store had a leased job."""
    with RedisServer() as server, server.client() as client:
        store = open_store(server.url)
        store.enqueue(QUEUE, drafts(2))
        [job] = store.claim(QUEUE, wants(1)).jobs
        client.flushall()
        yield server, store, job
        store.close()


class TestData:
    def test_all_jobs_are_gone(self, wiped):
        _, store, job = wiped

        assert store.get(QUEUE, ["id0", "id1"]) == [None, None]
        assert store.claim(QUEUE, REQUEST).jobs == []
        assert store.apply(QUEUE, [done(job)]) == [Verdict(False, None)]
        assert store.heartbeat(QUEUE, BEAT, [LeaseExtension(job.id, job.token, 60.0)]).lost == [0]
        assert store.events(QUEUE, None, 10) == store.events(None, None, 10) == []

    def test_the_store_goes_on(self, wiped):
        _, store, lost = wiped

        store.enqueue(QUEUE, drafts(2))
        [job] = store.claim(QUEUE, wants(1)).jobs

        assert job.token > lost.token
        assert store.apply(QUEUE, [done(lost), done(job)]) == [
            Verdict(False, State.PROCESSING),
            Verdict(True, State.COMPLETED),
        ]
        assert [queue.key for queue in store.describe(None)] == [QUEUE]

    def test_others_can_open_it_afterwards(self, wiped, open_store):
        """Its own keys are not mistaken for those of another program."""
        server, store, _ = wiped
        store.enqueue(QUEUE, drafts(2))

        other = open_store(server.url)

        assert other.get(QUEUE, ["id0"])[0] is not None
        other.close()

    def test_a_waiting_worker_is_woken_by_the_next_job(self, wiped):
        _, store, _ = wiped
        with store.listen([QUEUE], "ready") as listener:
            store.claim(QUEUE, REQUEST)
            store.enqueue(QUEUE, drafts(1))

            assert listener.wait(SOON)


def test_an_interrupted_enqueue_is_completed_when_it_is_repeated(store, client, prefix):
    """An error, such as a key of another program, stops a script halfway."""
    base = f"{prefix}:{{default/mail}}"
    store.enqueue(QUEUE, [])
    client.set(f"{base}:queued:mail", "another program's")
    with pytest.raises(StoreError):
        store.enqueue(QUEUE, drafts(1))
    client.delete(f"{base}:queued:mail")
    assert store.get(QUEUE, ["id0"]) == [None]

    [receipt] = store.enqueue(QUEUE, drafts(1))

    assert receipt.accepted
    assert [job.id for job in store.claim(QUEUE, wants(1)).jobs] == ["id0"]
