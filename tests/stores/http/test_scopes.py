"""The library over HTTP, with the narrowest scopes that the guide names as enough."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from litestar.connection import ASGIConnection
from tests.harness.servers.service import ServiceThread
from tests.waiting import until

import ackline
from ackline.core.errors import StoreForbidden
from ackline.core.job import State
from ackline.maintenance.reaper import recover
from ackline.queue.results import MAX_DIRECT_LOOKUPS
from ackline.queues import Queues
from ackline.service.auth.permissions import Scope
from ackline.service.auth.principal import Principal
from ackline.service.runtime import Runtime
from ackline.service.settings import Settings
from ackline.stores.contract import KeyWrite
from ackline.stores.memory import MemoryStore


class ScopesInTheToken:
    """A token is the list of its scopes."""

    def is_known(self, connection: ASGIConnection[Any, Any, Any, Any]) -> bool:
        del connection
        return True

    async def authenticate(self, connection: ASGIConnection[Any, Any, Any, Any]) -> Principal:
        words = connection.headers["authorization"].removeprefix("Bearer ").split("-")
        return Principal("acme", frozenset(map(Scope, words)), name=words[0])


@pytest.fixture
def service() -> Iterator[ServiceThread]:
    settings = Settings(port=0, maintenance=False, drain=0.0, grace=1.0)
    with ServiceThread(Runtime(settings, MemoryStore(), ScopesInTheToken())) as service:
        yield service


@pytest.fixture
def open_as(service: ServiceThread) -> Iterator[Any]:
    opened: list[Queues] = []

    def open_one(token: str) -> Queues:
        opened.append(ackline.open(service.url, token=token))
        return opened[-1]

    yield open_one
    for queues in opened:
        queues.close()


def test_a_producer_enqueues_waits_and_cancels_and_a_worker_works(open_as: Any) -> None:
    producing, working = open_as("produce")["mail"], open_as("consume")["mail"]
    working.handler("add")(lambda job: job.payload + 1)

    worker = ackline.Worker(working)
    running = threading.Thread(target=worker.run)
    running.start()
    with ThreadPoolExecutor(2 * MAX_DIRECT_LOOKUPS) as pool:
        waits = [
            pool.submit(producing.enqueue_and_wait, n, kind="add", timeout=20.0)
            for n in range(2 * MAX_DIRECT_LOOKUPS)
        ]
        assert sorted(one.result() for one in waits) == list(range(1, 2 * MAX_DIRECT_LOOKUPS + 1))
    worker.stop()
    running.join()

    later = producing.enqueue(1, delay=60.0)
    assert producing.cancel(later.id) is State.CANCELLED
    with pytest.raises(ackline.JobNotFound):
        producing.cancel("none")


def test_a_worker_recovers_the_jobs_of_another(open_as: Any) -> None:
    open_as("produce")["mail"].enqueue(1, id="a")
    queue = open_as("consume")["mail"]
    [job] = queue.claim(1, worker="dead", lease=0.01)

    until(lambda: queue.store.leases(queue.key))
    assert recover(queue).expired == 1

    [again] = queue.claim(1)
    assert (again.id, again.payload, again.attempt) == (job.id, 1, 2)


@pytest.mark.parametrize("token", ["produce", "consume", "produce-consume"])
def test_reading_without_its_scope_is_refused_by_name(open_as: Any, token: str) -> None:
    queues = open_as(token)
    open_as("produce")["mail"].enqueue(1)

    for read in (
        queues["mail"].jobs,
        queues["mail"].counts,
        queues.describe,
        queues.read_keys,
        lambda: list(queues["mail"].events()),
    ):
        with pytest.raises(StoreForbidden, match="read"):
            read()


def test_an_admin_deletes_a_key_without_reading_scope(open_as: Any) -> None:
    queues = open_as("admin")
    queues.store.write_keys("acme", [KeyWrite(key=("a",), value=b"1")])

    assert queues.delete_key("a")
    assert not queues.delete_key("a")
