"""The client: reused, cut, inherited and encrypted connections; batches that are too large."""

from __future__ import annotations

import os
import socket
import ssl
import threading
from http.client import HTTPConnection

import msgspec
import pytest
from tests.certificates import make_certificate
from tests.harness.servers.service import ServiceThread

from ackline.core.config import DEFAULTS
from ackline.core.errors import InvalidPayload, StoreError, StoreUnavailable
from ackline.core.job import QueueKey, State
from ackline.core.lifecycle import Verdict, complete, request_cancel
from ackline.queues import Queues
from ackline.service.auth.principal import Principal
from ackline.service.routes.v1 import store as routes
from ackline.service.runtime import Runtime
from ackline.service.settings import Settings
from ackline.service.store_api import arguments, execute, validation
from ackline.service.store_api.arguments import MAX_RESULTS
from ackline.stores.contract import (
    Capabilities,
    ClaimRequest,
    Filter,
    Heartbeat,
    HeartbeatReply,
    KeyWrite,
    LeaseExtension,
)
from ackline.stores.http import HttpStore
from ackline.stores.http.address import read_address

from .conftest import QUEUE, SOON, drafts

BEAT = Heartbeat(id="w", host="h", pid=1, started_at=0.0, concurrency=1, kinds=None, ttl=9.0)
REQUEST = ClaimRequest(worker="w", limit=1000, lease=30.0)


@pytest.fixture
def connected(monkeypatch):
    """The connections that are opened, in order."""
    made, connect = [], HTTPConnection.connect

    def note(connection):
        made.append(connection)
        connect(connection)

    monkeypatch.setattr(HTTPConnection, "connect", note)
    return made


def test_calls_of_one_thread_share_a_connection(connected, store):
    for n in range(5):
        store.enqueue(QUEUE, drafts(1, start=n))

    assert len(connected) == 1


def test_a_connection_closed_by_the_server_is_not_used_again(connected, store):
    store.info()
    connected[0].sock.shutdown(socket.SHUT_RDWR)

    assert store.enqueue(QUEUE, drafts(1))[0].accepted
    assert len(connected) == 2


def test_a_child_can_use_its_parents_store(store):
    store.enqueue(QUEUE, drafts(1))
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if store.enqueue(QUEUE, drafts(1, start=1))[0].accepted else 1)
        except BaseException:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0

    assert store.enqueue(QUEUE, drafts(1, start=2))[0].accepted
    assert None not in store.get(QUEUE, ["id0", "id1", "id2"])


def test_capabilities_of_a_local_store_are_not_reported(service, open_store):
    """Otherwise a worker would pass its listener, and Spark would take the URL for a file."""
    kept = service.runtime.store
    kept.capabilities = msgspec.structs.replace(
        kept.capabilities, shared=False, one_machine=True, joins_transactions=True, batch_size=7
    )

    found = open_store().capabilities

    assert found == Capabilities(
        name="http",
        persistent=False,
        shared=True,
        batch_size=7,
        max_journal=kept.capabilities.max_journal,
    )


def test_any_number_of_ids_is_purged(store):
    queue = Queues(store)[QUEUE.name]
    store.enqueue(QUEUE, drafts(3))

    assert queue.purge(ids=[f"id{number}" for number in range(1, MAX_RESULTS + 2)]) == 2
    assert queue.purge(ids=[]) == 0


class TestShortAnswers:
    """The service returns at most three; a request for more is not refused."""

    @pytest.fixture(autouse=True)
    def _three(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for module in (arguments, routes):
            monkeypatch.setattr(module, "MAX_RESULTS", 3)
        for module in (validation, routes):
            monkeypatch.setattr(module, "MAX_LISTEN_QUEUES", 3)

    def test_pages_are_shorter_and_read_on(self, store):
        store.enqueue(QUEUE, drafts(5))

        events = store.events(QUEUE, None, 9)
        rest = store.events(QUEUE, events[-1].cursor, 9)
        first = store.page(QUEUE, Filter(), None, 9)
        second = store.page(QUEUE, Filter(), first.cursor, 9)

        assert [len(events), len(rest)] == [3, 2]
        assert [len(first.jobs), len(second.jobs), second.cursor] == [3, 2, None]

    def test_a_claim_returns_fewer(self, store):
        store.enqueue(QUEUE, drafts(5))

        assert [len(store.claim(QUEUE, REQUEST).jobs) for _ in range(3)] == [3, 2, 0]

    def test_all_leases_of_a_worker_are_found(self, store):
        store.enqueue(QUEUE, drafts(9))
        mine = [*store.claim(QUEUE, REQUEST).jobs, *store.claim(QUEUE, REQUEST).jobs]
        store.claim(QUEUE, msgspec.structs.replace(REQUEST, worker="another"))

        held = [job.without_data() for job in mine]
        assert store.leases(QUEUE, worker="w", limit=9) == held
        assert store.leases(QUEUE, worker="w", limit=5) == held[:5]

    def test_maintenance_reaches_the_requested_limit(self, store):
        store.enqueue(QUEUE, drafts(9))

        assert store.purge(QUEUE, Filter(), 7) == 7
        assert store.purge(QUEUE, Filter(), 7) == 2
        assert store.purge(QUEUE, Filter(), 0) == 0

    def test_all_keys_are_read(self, store, service):
        keys = [("k", str(number)) for number in range(7)]
        for key in [*keys, *(("ackline", name) for name in "abcde")]:
            service.runtime.store.write_keys("default", [KeyWrite(key=key, value=b"1")])

        assert [entry.key for entry in store.read_keys("default", ("k",), 9)] == keys
        assert [entry.key for entry in store.read_keys("default", ("k",), 5)] == keys[:5]
        assert [entry.key for entry in Queues(store).read_keys(limit=9)] == keys

    def test_of_too_many_queues_some_are_listened_to(self, store):
        keys = [QUEUE, *(QueueKey("default", str(number)) for number in range(9))]

        with store.listen(keys, "changes") as listener:
            store.enqueue(QUEUE, drafts(1))

            assert listener.wait(SOON)


class TestLarge:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return msgspec.structs.replace(settings, max_body=100_000, max_payload=60_000)

    def test_batches_go_in_as_many_requests_as_it_takes(self, store):
        receipts = store.enqueue(QUEUE, drafts(20, size=40_000))

        assert [receipt.id for receipt in receipts] == [f"id{n}" for n in range(20)]
        jobs = store.claim(QUEUE, REQUEST).jobs
        assert [job.payload for job in jobs] == [b"x" * 40_000] * 20

        steps = [complete(job, b"r" * 40_000, DEFAULTS) for job in jobs]
        store.enqueue(QUEUE, drafts(1, start=50))
        claimed = store.claim(QUEUE, REQUEST, steps)

        assert claimed.verdicts == [Verdict(True, State.COMPLETED)] * 20
        assert [job.id for job in claimed.jobs] == ["id50"]

    def test_what_cannot_be_split_is_refused(self, store):
        with pytest.raises(InvalidPayload):
            store.enqueue(QUEUE, drafts(1, size=70_000))
        with pytest.raises(InvalidPayload):
            store.enqueue(QUEUE, drafts(1, size=200_000))

        assert store.get(QUEUE, ["id0"]) == [None]


class TestMany:
    """A batch above the limit takes several requests, and has one result."""

    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return msgspec.structs.replace(settings, max_batch=3)

    def test_jobs_go_in_and_out(self, store):
        receipts = store.enqueue(QUEUE, drafts(10))
        assert [receipt.id for receipt in receipts] == [f"id{n}" for n in range(10)]
        found = store.get(QUEUE, [f"id{n}" for n in (9, 50, *range(9))])
        assert [job and job.id for job in found] == ["id9", None, *(f"id{n}" for n in range(9))]

        jobs = [job for _ in range(4) for job in store.claim(QUEUE, REQUEST).jobs]
        steps = [complete(job, b"r", DEFAULTS) for job in jobs]
        store.enqueue(QUEUE, drafts(1, start=50))
        claimed = store.claim(QUEUE, REQUEST, steps)

        assert claimed.verdicts == [Verdict(True, State.COMPLETED)] * 10
        assert [job.id for job in claimed.jobs] == ["id50"]
        assert store.apply(QUEUE, steps) == [Verdict(True, State.COMPLETED)] * 10

    def test_leases_are_extended(self, store):
        store.enqueue(QUEUE, drafts(7))
        jobs = [job for _ in range(3) for job in store.claim(QUEUE, REQUEST).jobs]
        store.apply(QUEUE, [request_cancel("id4")])
        store.apply(QUEUE, [complete(jobs[5], b"r", DEFAULTS)])

        reply = store.heartbeat(
            QUEUE, BEAT, [LeaseExtension(job.id, job.token, 60.0) for job in jobs]
        )

        assert (reply.lost, reply.cancelled) == ([5], [4])
        assert store.heartbeat(QUEUE, BEAT, []) == HeartbeatReply([], [])
        assert [worker.heartbeat.id for worker in store.workers([QUEUE])[0]] == ["w"]

    def test_what_cannot_be_split_is_refused(self, store):
        writes = [KeyWrite(key=("k", str(n)), value=b"1") for n in range(4)]

        with pytest.raises(InvalidPayload, match="3"):
            store.write_keys("default", writes)

        assert store.read_keys("default", (), 10) == []


def test_a_journal_is_read_on_past_events_that_are_not_for_the_caller(store, monkeypatch):
    monkeypatch.setattr(execute, "SKIP_TIME_LIMIT", -1.0)
    monkeypatch.setattr(execute, "SKIP_PAGE", 10)
    monkeypatch.setattr(Principal, "can_see", lambda _principal, event: event.id == "id0")
    for n in range(1, 36):
        store.enqueue(QUEUE, drafts(1, start=n))
    store.enqueue(QUEUE, drafts(1))

    [event] = store.events(None, None, 1)

    assert (event.queue, event.id) == (QUEUE, "id0")
    assert list(store.events(None, event.cursor, 1)) == []


def test_a_listener_outlives_a_restart_of_the_service(settings):
    runtime = Runtime.from_settings(settings)
    with ServiceThread(runtime) as first:
        port = int(first.url.rpartition(":")[2].partition("/")[0])
        store = HttpStore(read_address(first.url))
        store.open()
        listener = store.listen([QUEUE], "ready")
    while listener.wait(0.2):
        pass
    with pytest.raises(StoreUnavailable):
        store.enqueue(QUEUE, drafts(1))

    again = Runtime.from_settings(msgspec.structs.replace(settings, port=port))
    with ServiceThread(again):
        assert listener.wait(SOON)  # anything may have been missed
        while listener.wait(0.2):
            pass
        store.enqueue(QUEUE, drafts(1))
        assert listener.wait(SOON)
        store.close()


def test_all_listeners_are_notified_of_a_job(open_store):
    """Any listener may be busy, so it is not enough to notify one of them."""
    listeners = [open_store().listen([QUEUE], "ready") for _ in range(3)]
    for listener in listeners:
        while listener.wait(0.1):
            pass

    open_store().enqueue(QUEUE, drafts(1))

    assert all(listener.wait(SOON) for listener in listeners)


class TestTls:
    """A service behind a TLS proxy, which here is a pipe between two sockets."""

    @pytest.fixture
    def encrypted(self, service, tmp_path):
        certificate = make_certificate(tmp_path, "localhost")
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate)
        plain = int(service.url.rpartition(":")[2].partition("/")[0])
        with socket.create_server(("127.0.0.1", 0)) as listener:
            threading.Thread(target=_relay, args=[listener, context, plain], daemon=True).start()
            yield f"https://localhost:{listener.getsockname()[1]}/api", certificate

    def test_a_certificate_is_verified(self, encrypted):
        url, certificate = encrypted

        with pytest.raises(StoreError, match="trusted"):
            HttpStore(read_address(url)).open()

        store = HttpStore(read_address(f"{url}?ca={certificate}"))
        store.open()
        assert store.enqueue(QUEUE, drafts(1))[0].accepted
        with store.listen([QUEUE], "ready") as listener:
            while listener.wait(0.2):
                pass
            store.enqueue(QUEUE, drafts(1, start=1))
            assert listener.wait(SOON)
        store.close()

    def test_a_certificate_of_another_name_is_refused(self, encrypted):
        url, certificate = encrypted
        by_number = url.replace("localhost", "127.0.0.1")

        with pytest.raises(StoreError, match="certificate"):
            HttpStore(read_address(f"{by_number}?ca={certificate}")).open()


def _relay(listener: socket.socket, context: ssl.SSLContext, port: int) -> None:
    while True:
        try:
            peer, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=_serve_one, args=[peer, context, port], daemon=True).start()


def _serve_one(peer: socket.socket, context: ssl.SSLContext, port: int) -> None:
    try:
        outer = context.wrap_socket(peer, server_side=True)
    except OSError:
        peer.close()
        return
    with outer, socket.create_connection(("127.0.0.1", port)) as inner:
        back = threading.Thread(target=_pump, args=[inner, outer], daemon=True)
        back.start()
        _pump(outer, inner)
        back.join()


def _pump(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass
