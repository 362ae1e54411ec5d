"""Delivery concurrency is shared: slow receivers of one tenant do not delay another's."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import msgspec
import pytest
from tests.service.webhook_receiver import Received, Receiver
from tests.service.webhooks.fast_service import HERE

from ackline.queues import Queues
from ackline.service.webhooks.concurrency import DeliveryGroups, delivery_groups, group_for
from ackline.service.webhooks.dispatcher import Dispatcher
from ackline.service.webhooks.settings import WebhookSettings
from ackline.service.webhooks.worker import DeliveryWorker
from ackline.stores.memory import MemoryStore

PATIENT = msgspec.structs.replace(HERE, timeout=60.0, concurrency=8, receiver_concurrency=4)


async def this_machine(_host: str, _port: int) -> Sequence[str]:
    return ["127.0.0.1"]


class Held:
    """A receiver that does not answer until it is released."""

    def __init__(self) -> None:
        self.receiver = Receiver()
        self.receiver.answer = self._answer
        self.came = threading.Semaphore(0)
        self.count = 0
        self._go = threading.Event()

    def _answer(self, _request: Received) -> int:
        self.count += 1
        self.came.release()
        self._go.wait(60)
        return 200

    def let_go(self) -> None:
        self._go.set()


@pytest.fixture
def held():
    held = Held()
    yield held
    held.let_go()
    held.receiver.close()


@pytest.fixture
def store():
    store = MemoryStore()
    store.open()
    return store


def dispatch_ends(store: MemoryStore, tenant: str, urls: Sequence[str]) -> None:
    """Finish a job with a callback to each URL."""
    queue = Queues(store, tenant)["email"]
    for url in urls:
        queue.enqueue(1, callback_url=url)
    for job in queue.claim(len(urls)):
        queue.complete(job, None)
    dispatcher = Dispatcher(store, group_count=delivery_groups(PATIENT).count)
    dispatcher.queues = (queue,)
    dispatcher.step()


@pytest.mark.parametrize("host", ["127.0.0.1", "host{n}.example"])
def test_slow_receivers_delay_no_other_tenant(store, held, receiver, host):
    port = held.receiver.port
    urls = [f"http://{host.format(n=n)}:{port}/slow-{n}" for n in range(40)]
    dispatch_ends(store, "acme", urls)
    dispatch_ends(store, "beta", [receiver.url])
    deliverer = DeliveryWorker(store, PATIENT, this_machine)
    deliverer.start()

    [told] = receiver.wait_for(1)

    assert told.path == "/hook"
    for _ in range(2):  # a quarter of 8
        assert held.came.acquire(timeout=10)
    assert held.count == 2
    held.let_go()
    deliverer.stop()


@pytest.mark.parametrize(
    ("concurrency", "at_once", "count", "width"),
    [(64, 4, 4, 4), (32, 4, 2, 4), (8, 4, 1, 2), (4, 4, 1, 1), (1, 1, 1, 1), (100, 3, 8, 3)],
)
def test_a_tenant_has_a_quarter_of_the_concurrency(concurrency, at_once, count, width):
    settings = WebhookSettings(concurrency=concurrency, receiver_concurrency=at_once)

    assert delivery_groups(settings) == DeliveryGroups(count, width)


def test_a_receiver_has_one_group_and_many_share_few():
    def lanes(tenant, urls):
        return {group_for(tenant, url, 4) for url in urls}

    paths = [f"https://example.com/{n}?q={n}" for n in range(50)]
    hosts = [f"https://{n}.example.com/" for n in range(50)]
    assert len(lanes("acme", paths)) == 1
    assert len(lanes("acme", hosts)) == 4
    assert not lanes("acme", hosts) & lanes("beta", hosts)
