"""Maintenance for all tenants: what one of them has or lacks is no trouble for the others."""

from __future__ import annotations

import pytest

from ackline.queues import Queues
from ackline.service.webhooks import delivery
from ackline.service.webhooks.dispatcher import Dispatcher
from ackline.stores.base import KeyWrite
from ackline.stores.memory import MemoryStore


@pytest.fixture
def store(clock):
    store = MemoryStore(clock)
    store.open()
    return store


class TestDispatcher:
    @pytest.mark.parametrize("note", [("callbacks", "bad"), ("readers", "bad", "webhooks")])
    def test_a_note_that_cannot_be_read_is_trouble_of_its_queue_alone(self, store, note):
        bad, good = Queues(store, "acme")["bad"], Queues(store, "beta")["good"]
        for queue in (bad, good):
            queue.enqueue(1, id=queue.name, callback_url="https://example.com/")
            queue.complete(queue.claim(1)[0], None)
        store.write_keys("acme", [KeyWrite(key=("ackline", *note), value=b"garbage")])
        dispatcher = Dispatcher(store)
        dispatcher.queues = (bad, good)

        with pytest.raises(ExceptionGroup) as caught:
            dispatcher.step()

        assert [error.__notes__ for error in caught.value.exceptions] == [
            ["dispatcher of queue acme/bad"]
        ]
        sent = delivery.open_queue(store).jobs().jobs
        assert [job.payload.tenant for job in sent] == ["beta"]
