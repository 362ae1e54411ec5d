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

LONG_TIMEOUT = msgspec.structs.replace(HERE, timeout=60.0, concurrency=8, receiver_concurrency=4)


async def this_machine(_host: str, _port: int) -> Sequence[str]:
    return ["127.0.0.1"]


class BlockedReceiver:
    """A receiver that does not answer until it is released."""

    def __init__(self) -> None:
        self.receiver = Receiver()
        self.receiver.answer = self._answer
        self.requests = threading.Semaphore(0)
        self.count = 0
        self._released = threading.Event()

    def _answer(self, _request: Received) -> int:
        self.count += 1
        self.requests.release()
        self._released.wait(60)
        return 200

    def release(self) -> None:
        self._released.set()


@pytest.fixture
def blocked():
    blocked = BlockedReceiver()
    yield blocked
    blocked.release()
    blocked.receiver.close()


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
    dispatcher = Dispatcher(store, group_count=delivery_groups(LONG_TIMEOUT).count)
    dispatcher.queues = (queue,)
    dispatcher.step()


@pytest.mark.parametrize("host", ["127.0.0.1", "host{n}.example"])
def test_slow_receivers_delay_no_other_tenant(store, blocked, receiver, host):
    port = blocked.receiver.port
    urls = [f"http://{host.format(n=n)}:{port}/slow-{n}" for n in range(40)]
    dispatch_ends(store, "acme", urls)
    dispatch_ends(store, "beta", [receiver.url])
    worker = DeliveryWorker(store, LONG_TIMEOUT, this_machine)
    worker.start()

    [message] = receiver.wait_for(1)

    assert message.path == "/hook"
    for _ in range(2):  # a quarter of 8
        assert blocked.requests.acquire(timeout=10)
    assert blocked.count == 2
    blocked.release()
    worker.stop()


@pytest.mark.parametrize(
    ("concurrency", "at_once", "count", "width"),
    [(64, 4, 4, 4), (32, 4, 2, 4), (8, 4, 1, 2), (4, 4, 1, 1), (1, 1, 1, 1), (100, 3, 8, 3)],
)
def test_a_tenant_has_a_quarter_of_the_concurrency(concurrency, at_once, count, width):
    settings = WebhookSettings(concurrency=concurrency, receiver_concurrency=at_once)

    assert delivery_groups(settings) == DeliveryGroups(count, width)


def test_a_receiver_has_one_group_and_many_share_few():
    def groups(tenant, urls):
        return {group_for(tenant, url, 4) for url in urls}

    paths = [f"https://example.com/{n}?q={n}" for n in range(50)]
    hosts = [f"https://{n}.example.com/" for n in range(50)]
    assert len(groups("acme", paths)) == 1
    assert len(groups("acme", hosts)) == 4
    assert not groups("acme", hosts) & groups("beta", hosts)
