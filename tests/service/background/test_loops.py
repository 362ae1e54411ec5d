"""Maintenance for all tenants: none affects the others."""

from __future__ import annotations

import pytest

from ackline.core.cron import Schedule
from ackline.core.job import QueueKey
from ackline.queue.journal.saved_cursor import SavedCursor, cursor_write
from ackline.queues import Queues
from ackline.service import Settings, schedules
from ackline.service.background.loops import BackgroundLoops
from ackline.service.webhooks import delivery, repository
from ackline.service.webhooks.dispatcher import READER, Dispatcher
from ackline.stores.contract import Filter
from ackline.stores.memory import MemoryStore


@pytest.fixture
def store(clock):
    store = MemoryStore(clock)
    store.open()
    return store


@pytest.fixture
def discovery(store):
    return BackgroundLoops(store, Settings(store="memory://")).loops[0]


def jobs(store: MemoryStore, queue: QueueKey) -> list[str]:
    return [job.id for job in store.page(queue, Filter(), None, 100).jobs]


class TestSchedules:
    KEY = QueueKey("acme", "never-seen")

    def test_fire_in_a_queue_that_never_had_a_job(self, store, discovery, clock):
        schedules.write(store, self.KEY, Schedule("each", "* * * * *", payload="tick"))
        discovery.step()
        clock.advance(60)

        discovery.step()

        [id] = jobs(store, self.KEY)
        assert id.startswith("each@")

    def test_fire_in_a_queue_that_was_dropped_and_scheduled_again(self, store, discovery, clock):
        queue = Queues(store, self.KEY.tenant)[self.KEY.name]
        queue.enqueue(1)
        schedules.write(store, self.KEY, Schedule("old", "* * * * *"))
        discovery.step()
        queue.drop(force=True)
        schedules.write(store, self.KEY, Schedule("new", "* * * * *"))
        discovery.step()
        clock.advance(60)

        discovery.step()

        assert [id.partition("@")[0] for id in jobs(store, self.KEY)] == ["new"]

    def test_deleted_before_their_queue_existed_leave_nothing(self, store, discovery, clock):
        schedules.write(store, self.KEY, Schedule("each", "* * * * *"))
        discovery.step()
        _, version = schedules.find(store, self.KEY, "each")
        assert schedules.delete(store, self.KEY, "each", version)
        clock.advance(60)

        discovery.step()

        assert jobs(store, self.KEY) == []
        clock.advance(3600)
        assert discovery.due() == {}

    def test_are_listed_before_their_queue_is_there(self, api):
        made = api.put("/v1/queues/fresh/schedules/each", {"cron": "* * * * *"})

        assert api.get("/v1/queues/fresh/schedules") == {"schedules": [made]}


class TestDispatcher:
    def test_a_saved_cursor_beyond_the_journal_is_dropped(self, store):
        """Like after a failover of a cluster node that lost what others had read."""
        queue = Queues(store, "acme")["mail"]
        queue.enqueue(1, id="a", callback_url="https://example.com/")
        queue.complete(queue.claim(1)[0], None)
        lost = SavedCursor(cursor="9999999.0", saved_at=0.0, saved_by="x")
        assert store.write_keys("acme", [cursor_write("mail", READER, lost, 0)])
        dispatcher = Dispatcher(store)
        dispatcher.queues = (queue,)

        dispatcher.step()

        assert [job.payload.tenant for job in delivery.open_queue(store).jobs().jobs] == ["acme"]

    def test_all_webhooks_are_read_again_only_when_one_has_changed(self, store, monkeypatch):
        queue = Queues(store, "acme")["mail"]
        queue.enqueue(0)
        dispatcher, read = Dispatcher(store), []
        dispatcher.queues = (queue,)
        read_keys = store.read_keys

        def reading(tenant, prefix, *arguments):
            read.append(prefix)
            return read_keys(tenant, prefix, *arguments)

        monkeypatch.setattr(store, "read_keys", reading)
        for number in range(4):
            queue.enqueue(number, callback_url="https://example.com/")
            queue.complete(queue.claim(1)[0], None)
            dispatcher.due()

        # At first, and after it has itself added the one for callbacks.
        assert read.count(repository.WEBHOOKS_PREFIX) == 2
