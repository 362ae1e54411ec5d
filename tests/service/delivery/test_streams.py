"""Streams on real sockets: prompt, bounded by the window, and nothing is lost at their end."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from httpx_sse import ServerSentEvent, connect_sse
from tests.waiting import until

from ackline.core.errors import StoreUnavailable
from ackline.core.job import QueueKey, State
from ackline.queue import RecoveredBy
from ackline.queues import Queues
from ackline.service import Settings
from ackline.service.auth.principal import Principal
from ackline.service.delivery.disconnect import MAX_FREE_RELEASES
from ackline.service.wakeups import stream_wakeup

DEFAULT = QueueKey("default", "default")


@pytest.fixture
def settings(tmp_path) -> Settings:
    return Settings(store=f"sqlite:///{tmp_path}/jobs.db", port=0, drain=0.1, ping_every=30)


@contextmanager
def listening(live, path: str = "/queue/listen", **options) -> Iterator[Iterator[ServerSentEvent]]:
    with (
        httpx.Client(base_url=live.url, timeout=10) as client,
        connect_sse(client, "GET", live.runtime.settings.base + path, **options) as source,
    ):
        yield source.iter_sse()


def messages(events, count):
    found: list[dict[str, Any]] = []
    while len(found) < count:
        event = next(events)
        if event.event == "message":
            found.append(json.loads(event.data))
    return found


def counts(live):
    return live.api.get("/queue/stats")


def test_waiting_messages_are_sent_immediately(live):
    ids = [live.api.enqueue({"n": n}) for n in range(3)]

    with listening(live) as events:
        event = next(events)
        data = json.loads(event.data)
        assert (event.event, event.id, data["id"]) == ("message", ids[0], ids[0])
        assert (data["value"], data["attempts"]) == ({"n": 0}, 1)
        assert [m["id"] for m in messages(events, 2)] == ids[1:]


def test_an_empty_queue_sends_pings(live):
    with listening(live) as events:
        event = next(events)
        assert (event.event, event.data) == ("ping", "")


def test_a_new_message_is_delivered_without_delay(live):
    with listening(live) as events:
        next(events)
        waits = []
        for n in range(10):
            began = time.perf_counter()
            live.api.enqueue(n)
            (message,) = messages(events, 1)
            waits.append(time.perf_counter() - began)
            live.api.post("/queue/ack", {"id": message["id"], "receipt": message["receipt"]})

    assert sorted(waits)[5] < 0.25


def test_never_more_than_the_prefetch_window(live):
    for n in range(5):
        live.api.enqueue(n)

    with listening(live, "/queue/listen?prefetch=2") as events:
        first, second = messages(events, 2)
        time.sleep(0.3)
        assert counts(live)["processing"] == 2
        live.api.post("/queue/ack", {"id": first["id"]})
        (third,) = messages(events, 1)
        assert third["value"] == 2
        live.api.post("/queue/nack", {"id": second["id"], "delay": 60_000})
        assert messages(events, 1)[0]["value"] == 3
        assert counts(live)["processing"] == 2


def test_jobs_settled_elsewhere_free_the_window(live):
    for n in range(2):
        live.api.enqueue(n)

    with listening(live, "/queue/listen?prefetch=1") as events:
        (first,) = messages(events, 1)
        store = live.runtime.store
        store.purge(DEFAULT, _only(first["id"]), 10)
        assert messages(events, 1)[0]["value"] == 1


def _only(id):
    from ackline.stores.contract import Filter

    return Filter(ids=frozenset({id}))


def test_an_expired_lock_frees_the_window_and_the_message_returns(live):
    live.api.enqueue("slow", lockDuration=300)

    with listening(live, "/queue/listen?prefetch=1") as events:
        (first,) = messages(events, 1)
        (again,) = messages(events, 1)

    assert (again["id"], again["attempts"]) == (first["id"], 2)
    assert again["receipt"] != first["receipt"]


def test_a_disconnect_releases_all_jobs(live):
    for n in range(3):
        live.api.enqueue(n)

    with listening(live) as events:
        messages(events, 3)
        assert counts(live)["processing"] == 3

    until(lambda: counts(live) == {"pending": 3, "processing": 0, "dlq": 0, "total": 3})
    assert live.api.get("/queue/poll")["message"]["attempts"] == 1


class TestDisconnect:
    """A client that disconnects may have crashed because of one of its messages."""

    def receive(self, live, number, query="prefetch=1"):
        """The messages of a client that then disconnects."""
        with listening(live, f"/queue/listen?{query}") as events:
            found = messages(events, number)
        until(lambda: counts(live)["processing"] == 0)
        return found

    def test_a_message_that_crashes_every_client_ends_in_the_dlq(self, live):
        poison = live.api.enqueue("poison", maxAttempts=3)

        seen = [self.receive(live, 1)[0]["attempts"] for _ in range(3)]

        assert seen == [1, 2, 3]
        (letter,) = live.api.get("/queue/dlq")
        assert (letter["id"], letter["attempts"]) == (poison, 3)
        assert "its client disconnected" in letter["errorMessage"]

    def test_only_the_first_job_loses_an_attempt(self, live):
        ids = [live.api.enqueue(n) for n in range(3)]
        self.receive(live, 3, "prefetch=3")

        found = self.receive(live, 3, "prefetch=3")

        assert [(one["id"], one["attempts"]) for one in found] == [
            (ids[1], 1),
            (ids[2], 1),
            (ids[0], 2),
        ]

    def test_a_job_is_not_released_forever(self, live):
        poison = live.api.enqueue("poison", maxAttempts=2, priority=0)
        seen = []
        while not live.api.get("/queue/dlq"):
            other = live.api.enqueue("in front of it", priority=9)
            left = self.receive(live, 2, "prefetch=2")
            seen += [one["attempts"] for one in left if one["id"] == poison]
            live.runtime.store.purge(DEFAULT, _only(other), 1)

        assert seen == [1] * (MAX_FREE_RELEASES + 1) + [2]

    def test_a_client_that_extended_its_lock_is_noticed_too(self, live):
        live.api.enqueue("poison", maxAttempts=1)
        with listening(live) as events:
            (sent,) = messages(events, 1)
            held = {"id": sent["id"], "receipt": sent["receipt"], "duration": 600_000}
            live.api.post("/queue/touch", held)

        until(lambda: counts(live)["dlq"] == 1)

    def test_the_journal_says_why_the_messages_returned(self, live):
        live.api.enqueue(1)
        self.receive(live, 1)

        (sweep,) = live.api.get("/v1/events", queue="default")["sweeps"]
        assert sweep["payload"] == {"count": 1, "dlq_count": 0, "triggered_by": "disconnect"}

    def test_a_shutdown_costs_no_attempt(self, live):
        live.api.enqueue("first")
        with listening(live) as events:
            messages(events, 1)
            live.runtime.streams.end_all()
            assert list(events) == []

        until(lambda: counts(live)["pending"] == 1)
        assert live.api.get("/queue/poll")["message"]["attempts"] == 1


def test_only_the_requested_kinds(live):
    live.api.enqueue(1, kind="red")
    live.api.enqueue(2, kind="blue")

    with listening(live, "/queue/listen?kinds=blue") as events:
        assert messages(events, 1)[0]["value"] == 2
        assert counts(live)["pending"] == 1


def test_a_delayed_message_is_delivered_when_it_is_due(live):
    with listening(live) as events:
        next(events)
        began = time.monotonic()
        live.api.enqueue("later", delay=400)
        messages(events, 1)

    assert 0.39 <= time.monotonic() - began < 2.5


def test_many_listeners_share_the_work(live):
    seen: list[str] = []

    def consume(events):
        for event in events:
            if event.event == "message":
                id = json.loads(event.data)["id"]
                seen.append(id)
                live.api.post("/queue/ack", {"id": id})

    def listen():
        try:
            with listening(live, "/queue/listen?prefetch=1") as events:
                consume(events)
        except httpx.TransportError:
            pass  # the service has stopped

    threads = [threading.Thread(target=listen) for _ in range(5)]
    for thread in threads:
        thread.start()
    ids = [live.api.enqueue(n) for n in range(40)]
    until(lambda: counts(live)["total"] == 0, 20)
    live.runtime.streams.end_all()
    for thread in threads:
        thread.join(10)

    assert sorted(seen) == sorted(ids)


class TestLongPoll:
    def test_waits_for_a_message(self, live):
        answers = []
        thread = threading.Thread(
            target=lambda: answers.append(live.api.get("/queue/poll", wait=10))
        )
        thread.start()
        until(lambda: len(live.runtime.streams) == 1)
        id = live.api.enqueue()
        thread.join(5)

        assert answers[0]["message"]["id"] == id

    def test_ends_with_null(self, live):
        began = time.monotonic()

        assert live.api.get("/queue/poll", wait=0.2)["message"] is None
        assert time.monotonic() - began >= 0.2

    def test_a_client_that_disconnects_gets_no_job(self, live):
        with pytest.raises(httpx.ReadTimeout):
            live.client.get("/api/queue/poll?wait=30", timeout=0.3)
        until(lambda: len(live.runtime.streams) == 0)

        live.api.enqueue()

        assert live.api.get("/queue/poll")["message"]["attempts"] == 1


class TestStop:
    def test_shutdown_fails_readiness_then_ends_streams_and_releases(self, live):
        for n in range(2):
            live.api.enqueue(n)
        with listening(live) as events:
            messages(events, 2)
            live.runtime.settings = Settings(drain=1.0)
            live.request_stop()
            until(lambda: live.client.get("/readyz").status_code == 503)
            assert live.client.get("/livez").status_code == 200
            assert list(events) == []

        def is_released():
            live.runtime.store.open()
            found = live.runtime.store.describe("default")[0].counts
            return (found[State.QUEUED], found[State.PROCESSING]) == (2, 0)

        until(is_released)

    def test_a_draining_service_leases_no_jobs(self, live):
        live.api.enqueue()
        live.runtime.drain()

        assert live.api.get("/queue/poll", wait=5)["message"] is None
        with listening(live) as events:
            assert list(events) == []


class TestKeys:
    def test_a_watcher_sees_keys_of_undelivered_messages(self, live):
        live.api.enqueue({"n": 1}, maxAttempts=1, keysIfUndelivered=[["lost", "n"]])

        with listening(live, "/watch?prefix=lost") as events:
            assert next(events).event == "ping"
            message = live.api.get("/queue/poll")["message"]
            live.api.post("/queue/nack", {"id": message["id"]})
            event = next(events)
            assert event.event == "set"
            assert json.loads(event.data)["key"] == ["lost", "n"]
            assert json.loads(event.data)["value"] == {"n": 1}
            live.api.delete("/keys/lost/n")
            event = next(events)
            assert (event.event, json.loads(event.data)) == ("delete", {"key": ["lost", "n"]})


class TestEvents:
    def test_are_streamed_as_they_happen(self, live):
        with listening(live, "/v1/events/stream") as events:
            next(events)
            id = live.api.enqueue()
            event = next(events)
            assert (event.event, json.loads(event.data)["id"]) == ("enqueue", id)

    def test_continue_after_the_last_event_id(self, live):
        first, second = live.api.enqueue(), live.api.enqueue()
        page = live.api.get("/v1/events", queue="default")
        cursor = page["events"][0]["cursor"]

        headers = {"Last-Event-ID": cursor}
        with listening(live, "/v1/events/stream", headers=headers) as events:
            assert next(events).event == "ping"
            event = next(events)
            assert json.loads(event.data)["id"] == second != first
            assert event.id == page["events"][1]["cursor"]

    def test_those_of_other_tenants_are_not_read(self, live, monkeypatch):
        store = live.runtime.store
        first = live.api.enqueue()
        start = live.api.get("/v1/events")["cursor"]
        foreign = Queues(store, "other")["busy"]
        for _ in range(4):
            foreign.enqueue_many(range(5000))
        dropped = Queues(store)["dropped"]
        dropped.enqueue(1)
        dropped.drop(force=True)
        for _ in range(4):
            foreign.enqueue_many(range(5000))
        second = live.api.enqueue()
        read, pages = store.events, []

        def counted(queue, after, limit, **of):
            pages.append(page := read(queue, after, limit, **of))
            return page

        monkeypatch.setattr(store, "events", counted)
        headers = {"Last-Event-ID": start}
        with listening(live, "/v1/events/stream", headers=headers) as events:
            received = [next(events) for _ in range(5)]

        assert [one.event for one in received] == ["ping", "enqueue", "purge", "drop", "enqueue"]
        assert json.loads(received[-1].data)["id"] == second != first
        assert {event.queue.tenant for page in pages for event in page} == {"default"}
        assert sum(map(len, pages)) < 10

    def test_while_nothing_happens_no_journal_is_read(self, live, monkeypatch):
        store, checks, reads = live.runtime.store, threading.Semaphore(0), []
        info, read = store.info, store.events

        def counted_info():
            checks.release()
            return info()

        def counted_read(*arguments, **of):
            reads.append(arguments)
            return read(*arguments, **of)

        with listening(live, "/v1/events/stream") as events:
            next(events)
            live.api.enqueue()
            assert next(events).event == "enqueue"
            monkeypatch.setattr(live.runtime.background, "loops", [])
            monkeypatch.setattr(store, "info", counted_info)
            monkeypatch.setattr(store, "events", counted_read)
            for _ in range(2):  # a check in progress may still read
                assert checks.acquire(timeout=10)
            reads.clear()
            for _ in range(4):
                assert checks.acquire(timeout=10)
            assert not reads
            live.api.enqueue()
            assert next(events).event == "enqueue"
            assert reads

    def test_pings_are_sent_while_invisible_events_are_read(self, live, monkeypatch):
        live.api.enqueue()
        live.api.enqueue()
        one, other = live.runtime.store.events(DEFAULT, None, 2)
        endless = itertools.cycle([[one], [other]])
        monkeypatch.setattr(live.runtime.store, "events", lambda *_, **__: next(endless))
        monkeypatch.setattr(Principal, "can_see", lambda *_: False)
        monkeypatch.setattr(stream_wakeup.StreamWakeup, "ping_due", True)
        headers = {"Last-Event-ID": "0.0"}
        with listening(live, "/v1/events/stream?queue=default", headers=headers) as events:
            assert [next(events).event for _ in range(5)] == ["ping"] * 5

    @pytest.mark.parametrize(
        ("recovered_by", "triggered_by"),
        [
            (RecoveredBy.SWEEP, "scheduler"),
            (RecoveredBy.HEARTBEAT, "heartbeat"),
            (RecoveredBy.CLAIM, "claim"),
            (RecoveredBy.DISCONNECT, "disconnect"),
            (RecoveredBy.MONITOR, "supervisor"),
            (RecoveredBy.MANUAL, "operator"),
        ],
    )
    def test_a_requeue_event_says_what_triggered_it(self, live, recovered_by, triggered_by):
        queue = Queues(live.runtime.store)["default"]
        queue.enqueue(1)
        queue.expire([job.record for job in queue.claim(1)], recovered_by=recovered_by)

        (requeue,) = live.api.get("/v1/events", queue="default")["sweeps"]

        assert requeue["type"] == "requeue"
        assert requeue["payload"] == {"count": 1, "dlq_count": 0, "triggered_by": triggered_by}

    def swept(self, live, jobs):
        """The cursor before a sweep of this many jobs."""
        queue = Queues(live.runtime.store)["default"]
        queue.enqueue_many(range(jobs))
        held = [job.record for job in queue.claim(jobs)]
        cursor = live.runtime.store.info().cursor
        queue.expire(held)
        return cursor

    def test_a_cursor_beyond_the_end_is_reported_as_dropped(self, live):
        id = live.api.enqueue()
        page = live.api.get("/v1/events", queue="default")
        assert live.api.get("/v1/events", queue="default", after=page["cursor"])["events"] == []

        problem = live.api.get("/v1/events", 410, after="99999999999999999.0")
        assert problem["type"].endswith("events-dropped")
        again = live.api.get("/v1/events", after=problem["cursor"])
        assert [event["id"] for event in again["events"]] == [id]
        headers = {"Last-Event-ID": "99999999999999999.0"}
        with listening(live, "/v1/events/stream", headers=headers) as events:
            assert [next(events).event for _ in range(3)] == ["ping", "dropped", "enqueue"]

    @pytest.mark.parametrize("limit", [1, 2, 3, 5, 100])
    def test_a_sweep_is_reported_once_with_any_page_size(self, live, limit):
        cursor, received, seen = self.swept(live, 3), [], 0
        live.api.enqueue()
        while True:
            page = live.api.get("/v1/events", queue="default", after=cursor, limit=limit)
            if not page["events"]:
                break
            cursor, seen = page["cursor"], seen + len(page["events"])
            received += [sweep["payload"]["count"] for sweep in page["sweeps"]]

        assert (seen, received) == (4, [3])

    def test_a_stream_resumed_within_a_sweep_gets_its_whole_summary(self, live):
        cursor = self.swept(live, 3)
        page = live.api.get("/v1/events", queue="default", after=cursor, limit=2)

        headers = {"Last-Event-ID": page["cursor"]}
        with listening(live, "/v1/events/stream", headers=headers) as events:
            assert next(events).event == "ping"
            sweep, last = next(events), next(events)

        assert (sweep.event, json.loads(sweep.data)["payload"]["count"]) == ("requeue", 3)
        assert last.event == "expire"

    def test_a_sweep_is_reported_as_one(self, live):
        for attempts in (1, 2, 2):
            live.api.enqueue(1, lockDuration=50, maxAttempts=attempts)
        with listening(live, "/v1/events/stream") as events:
            next(events)
            live.api.post("/v1/queues/default/claim", {"limit": 3})
            received: list[tuple[str, dict[str, Any]]] = []
            while len([t for t in received if t[0] == "expire"]) < 3:
                event = next(events)
                received.append((event.event, json.loads(event.data)))
        requeued = [data["payload"] for name, data in received if name == "requeue"]
        moved = [data["payload"] for name, data in received if name == "move_to_dlq"]
        assert sum(one["count"] for one in requeued) == 2
        assert sum(one["dlq_count"] for one in requeued) == 1
        assert {one["triggered_by"] for one in requeued} == {"scheduler"}
        assert moved == [{"count": 1}]
        sweep = next(data for name, data in received if name == "requeue")
        assert sweep.keys() == {"type", "timestamp", "payload"}


def test_a_stream_outlives_a_store_that_fails(live, monkeypatch):
    first = live.api.enqueue(1, maxAttempts=1)
    tries: list[object] = []

    def unavailable(*_args, **_options):
        tries.append(None)
        raise StoreUnavailable("the server closed the connection")

    with listening(live, params={"prefetch": 2}) as events:
        assert messages(events, 1)[0]["id"] == first
        with monkeypatch.context() as patched:
            patched.setattr(live.runtime.store, "claim", unavailable)
            second = live.api.enqueue(2)
            until(lambda: len(tries) >= 3)
        assert messages(events, 1)[0]["id"] == second
        assert live.runtime.store.get(DEFAULT, [first])[0].state is State.PROCESSING
