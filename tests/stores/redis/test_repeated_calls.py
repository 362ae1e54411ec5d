"""The store never resends anything by itself, and callers may repeat everything."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.harness.faults.proxy import CutPoint, Proxy
from tests.harness.servers.ports import HOST
from tests.stores.redis.conftest import (
    BEAT,
    BOOM,
    QUEUE,
    done,
    drafts,
    lapse,
    load_scripts,
    wants,
)
from tests.stores.redis.io.fake_server import CUT, FakeServer, array, bulk, mapping

from ackline.core.config import DEFAULTS, QueueSettings
from ackline.core.errors import StoreUnavailable
from ackline.core.job import Draft, Record, State
from ackline.core.lifecycle import Verdict, bury, cancel, release
from ackline.stores.contract import Filter, KeyWrite, LeaseExtension
from ackline.stores.redis import RedisStore
from ackline.stores.redis.lua import script

VERBS: dict[str, Callable[[RedisStore], object]] = {
    "enqueue": lambda store: store.enqueue(QUEUE, drafts(1, start=100)),
    "claim": lambda store: store.claim(QUEUE, wants(1)),
    "apply": lambda store: store.apply(QUEUE, [cancel("id1", DEFAULTS)]),
    "heartbeat": lambda store: store.heartbeat(QUEUE, BEAT, []),
    "promote": lambda store: store.promote(QUEUE, 10),
    "prune": lambda store: store.prune(QUEUE, 10),
    "purge": lambda store: store.purge(QUEUE, Filter(ids=frozenset({"id1"})), 10),
    "configure": lambda store: store.configure(QUEUE, QueueSettings(paused=True)),
    "write_keys": lambda store: store.write_keys("default", [KeyWrite(key=("a",), value=b"1")]),
}


@pytest.fixture
def proxy(server) -> Iterator[Proxy]:
    with Proxy(server.address) as proxy:
        yield proxy


@pytest.fixture
def proxied_store(proxy, prefix, open_store, clock, client) -> RedisStore:
    """A store that reaches its server through the proxy."""
    load_scripts(client, *VERBS)
    host, port = proxy.address
    store: RedisStore = open_store(f"redis://{host}:{port}?prefix={prefix}", clock)
    store.enqueue(QUEUE, [*drafts(3), Draft("later", "mail", b"", delay=60.0)])
    return store


@pytest.fixture
def sent(proxy, monkeypatch) -> list[bytes]:
    """All requests that reached the proxy."""
    requests: list[bytes] = []
    decide = proxy.cuts.decide

    def note(request: bytes) -> CutPoint | None:
        requests.append(request)
        moment: CutPoint | None = decide(request)
        return moment

    monkeypatch.setattr(proxy.cuts, "decide", note)
    return requests


def lose_answer(proxy: Proxy, verb: str, call: Callable[[], object]) -> None:
    """The server executes it, but the caller gets no answer."""
    proxy.cut_next("after", matching=script(verb).sha.encode())
    with pytest.raises(StoreUnavailable):
        call()


class TestSentOnce:
    @pytest.mark.parametrize("verb", VERBS)
    def test_a_lost_answer_is_reported_and_the_command_is_sent_once(
        self, proxy, proxied_store, sent, verb
    ):
        lose_answer(proxy, verb, lambda: VERBS[verb](proxied_store))

        assert proxy.done["after"] == 1
        assert times_sent(verb, sent) == 1

    @pytest.mark.parametrize("verb", VERBS)
    def test_a_lost_command_is_reported_and_changes_nothing(self, proxy, proxied_store, sent, verb):
        before = state_of(proxied_store)
        proxy.cut_next("before", matching=script(verb).sha.encode())

        with pytest.raises(StoreUnavailable):
            VERBS[verb](proxied_store)

        assert state_of(proxied_store) == before
        assert times_sent(verb, sent) == 1

    def test_the_next_call_has_a_new_connection(self, proxy, proxied_store):
        lose_answer(proxy, "claim", lambda: proxied_store.claim(QUEUE, wants(1)))

        assert proxied_store.promote(QUEUE, 1) == 0

    def test_a_connection_that_died_in_the_pool_is_not_used(
        self, proxy, proxied_store, monkeypatch
    ):
        monkeypatch.setattr("ackline.stores.redis.io.client.ALIVE_FOR", 0.0)
        proxy.cut_all()

        assert proxied_store.enqueue(QUEUE, drafts(1, start=100))[0].accepted

    @pytest.mark.parametrize("mode", ["single", "sentinel", "cluster"])
    def test_no_client_sends_a_cut_command_again(self, open_store, mode):
        with FakeServer({"EVALSHA": CUT}) as server:
            server.answers |= answers_of_any_mode(server.port)
            store = open_store(url_of(mode, server.port))

            with pytest.raises(StoreUnavailable):
                store.promote(QUEUE, 10)

            store.close()
        assert server.times("EVALSHA") == 1
        assert server.times("EVAL") == 0


def times_sent(verb: str, requests: list[bytes]) -> int:
    wanted = script(verb)
    return sum(
        wanted.sha.encode() in request or wanted.text.encode() in request for request in requests
    )


def answers_of_any_mode(port: int) -> dict[str, bytes]:
    """Answers that make a server look like its own sentinel, and like a cluster."""
    master = {"name": "main", "ip": HOST, "port": port, "flags": "master", "num-other-sentinels": 0}
    node = array(bulk(HOST), b":%d\r\n" % port, bulk("id"))
    return {
        "SENTINEL": array(mapping(master)),
        "CLUSTER": array(array(b":0\r\n", b":16383\r\n", node)),
        "COMMAND": array(*map(command, ("type", "get", "setnx", "publish"))),
    }


def command(name: str) -> bytes:
    """A command whose first argument is its key."""
    return array(bulk(name), b":-2\r\n", array(), b":1\r\n", b":1\r\n", b":1\r\n")


def url_of(mode: str, port: int) -> str:
    match mode:
        case "single":
            return f"redis://{HOST}:{port}"
        case "sentinel":
            return f"redis+sentinel://{HOST}:{port}/main"
        case _:
            return f"redis+cluster://{HOST}:{port}"


def state_of(store: RedisStore) -> object:
    return (
        store.page(QUEUE, Filter(), None, 100),
        store.events(QUEUE, None, 100),
        store.describe(None),
        store.workers([QUEUE])[0],
        store.read_keys("default", (), 10),
    )


class TestRepeated:
    """Rule 12: every mutation is safe to send again after an unknown outcome."""

    def test_enqueue_answers_duplicate(self, proxy, proxied_store):
        lose_answer(proxy, "enqueue", lambda: VERBS["enqueue"](proxied_store))

        [receipt] = proxied_store.enqueue(QUEUE, drafts(1, start=100))

        assert (receipt.accepted, receipt.state) == (False, State.QUEUED)
        assert len(steps(proxied_store, "id100")) == 1

    @pytest.mark.parametrize("step", ["complete", "fail", "release"])
    def test_settling_answers_applied(self, proxy, proxied_store, step):
        [job] = proxied_store.claim(QUEUE, wants(1)).jobs
        settle = {
            "complete": done(job),
            "fail": bury(job, BOOM, DEFAULTS),
            "release": release(job, DEFAULTS),
        }[step]
        lose_answer(proxy, "apply", lambda: proxied_store.apply(QUEUE, [settle]))
        before = state_of(proxied_store)

        [verdict] = proxied_store.apply(QUEUE, [settle])

        assert verdict.applied
        assert state_of(proxied_store) == before

    def test_the_jobs_of_a_claim_come_back_when_their_lease_lapses(
        self, proxy, proxied_store, clock
    ):
        lose_answer(proxy, "claim", lambda: proxied_store.claim(QUEUE, wants(2)))
        assert [job.id for job in proxied_store.claim(QUEUE, wants(9)).jobs] == ["id2"]

        clock.advance(30.0)
        lapsed = [job for job in proxied_store.leases(QUEUE) if job.id != "id2"]
        assert (
            proxied_store.apply(QUEUE, [lapse(job) for job in lapsed])
            == [Verdict(True, State.QUEUED)] * 2
        )

        again = proxied_store.claim(QUEUE, wants(9)).jobs
        assert [(job.id, job.attempts) for job in again] == [("id0", 2), ("id1", 2)]

    def test_settling_and_claiming_in_one_call(self, proxy, proxied_store):
        """What was settled stays settled; what was claimed waits until its lease lapses."""
        [job] = proxied_store.claim(QUEUE, wants(1)).jobs
        lose_answer(proxy, "claim", lambda: proxied_store.claim(QUEUE, wants(1), [done(job)]))

        claimed = proxied_store.claim(QUEUE, wants(1), [done(job)])

        assert claimed.verdicts == [Verdict(True, State.COMPLETED)]
        assert [job.id for job in claimed.jobs] == ["id2"]
        assert len(steps(proxied_store, job.id)) == 3

    @pytest.mark.parametrize("step", ["complete", "fail", "release"])
    def test_a_claim_that_settles_again_is_one_round_trip(self, proxied_store, sent, step):
        """A second one could fail, and nobody would have the jobs that the first has leased."""
        [job] = proxied_store.claim(QUEUE, wants(1)).jobs
        settle = {
            "complete": done(job),
            "fail": bury(job, BOOM, DEFAULTS),
            "release": release(job, DEFAULTS),
        }[step]
        proxied_store.apply(QUEUE, [settle])
        sent.clear()

        claimed = proxied_store.claim(QUEUE, wants(1), [settle, done(job, b"another")])

        assert [verdict.applied for verdict in claimed.verdicts] == [True, False]
        assert len(claimed.jobs) == 1
        assert len(sent) == 1

    def test_a_repeated_heartbeat_extends_the_same_leases(self, proxy, proxied_store, clock):
        [job] = proxied_store.claim(QUEUE, wants(1)).jobs
        holds = [LeaseExtension(job.id, job.token, 60.0)]
        lose_answer(proxy, "heartbeat", lambda: proxied_store.heartbeat(QUEUE, BEAT, holds))

        assert proxied_store.heartbeat(QUEUE, BEAT, holds).lost == []
        assert leased(proxied_store, job).deadline == clock.now() + 60.0

    def test_promote_queues_once(self, proxy, proxied_store, clock):
        clock.advance(60.0)
        lose_answer(proxy, "promote", lambda: VERBS["promote"](proxied_store))

        assert proxied_store.promote(QUEUE, 10) == 0
        assert len(steps(proxied_store, "later")) == 2

    def test_purge_deletes_once(self, proxy, proxied_store):
        lose_answer(proxy, "purge", lambda: VERBS["purge"](proxied_store))

        assert VERBS["purge"](proxied_store) == 0
        assert len(steps(proxied_store, "id1")) == 2

    def test_a_key_is_written_once(self, proxy, proxied_store):
        write = [KeyWrite(key=("a",), value=b"1", version=0)]
        lose_answer(proxy, "write_keys", lambda: proxied_store.write_keys("default", write))

        assert not proxied_store.write_keys("default", write)
        assert [key.value for key in proxied_store.read_keys("default", (), 10)] == [b"1"]


def steps(store: RedisStore, id: str) -> list[object]:
    return [event.act for event in store.events(QUEUE, None, 100) if event.id == id]


def leased(store: RedisStore, job: Record) -> Record:
    [found] = store.get(QUEUE, [job.id])
    assert found is not None
    return found
