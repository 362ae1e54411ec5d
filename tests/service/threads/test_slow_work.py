"""Slow work delays neither short calls nor other tenants."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from ackline.journal_views.latest_events import LatestEvents
from ackline.queues import Queues
from ackline.service.auth.permissions import Scope
from ackline.service.auth.principal import Principal
from ackline.service.events import journal
from ackline.service.routes.v1 import search, store
from ackline.service.threads.slow_work import (
    CALLS_PER_TENANT,
    MAX_WAITING_PER_TENANT,
    THREAD_COUNT,
    SlowWorkPool,
    TooManySlowRequests,
)
from ackline.service.webhooks import api
from ackline.stores.contract import Page

CLIENTS = 16


class BlockedCall:
    """Slow work that continues when the test says so."""

    def __init__(self, answer):
        self.answer = answer
        self._started = threading.Semaphore(0)
        self._resume = threading.Event()

    def __call__(self, *_arguments, **_options):
        self._started.release()
        assert self._resume.wait(30)
        return self.answer

    def wait_for(self, count):
        for _ in range(count):
            assert self._started.acquire(timeout=10)

    def release(self):
        self._resume.set()


def require_polls_meanwhile(live, blocked, request):
    """More slow calls than threads for short ones, and a poll that is not delayed."""
    live.api.enqueue(1, id="a")
    with ThreadPoolExecutor(CLIENTS) as clients:
        found = [clients.submit(request) for _ in range(CLIENTS)]
        try:
            blocked.wait_for(CALLS_PER_TENANT)

            assert live.api.get("/queue/poll")["message"]["id"] == "a"
            assert not any(one.done() for one in found)
        finally:
            blocked.release()
        return [one.result() for one in found]


def test_a_poll_does_not_wait_for_searches(live, monkeypatch):
    blocked = BlockedCall(search.SearchResults([], complete=True))
    monkeypatch.setattr(search, "SearchResults", blocked)

    found = require_polls_meanwhile(live, blocked, lambda: live.api.get("/v1/search", text="x"))

    assert [one["complete"] for one in found] == [True] * CLIENTS


def test_a_poll_does_not_wait_for_reading_the_latest_events(live, monkeypatch):
    blocked = BlockedCall(LatestEvents([], complete=True))
    monkeypatch.setattr(journal, "latest_events", blocked)

    found = require_polls_meanwhile(
        live, blocked, lambda: live.api.get("/v1/events", last=10, text="x")
    )

    assert [one["complete"] for one in found] == [True] * CLIENTS


def test_a_poll_does_not_wait_for_lists_of_deliveries(live, monkeypatch):
    blocked = BlockedCall(Page([], None))
    monkeypatch.setattr(api, "read_page", blocked)
    id = live.api.post("/v1/webhooks", {"url": "https://example.com/"}, 201)["id"]

    found = require_polls_meanwhile(
        live, blocked, lambda: live.api.get(f"/v1/webhooks/{id}/deliveries")
    )

    assert [one["deliveries"] for one in found] == [[]] * CLIENTS


@pytest.mark.parametrize(
    ("verb", "path", "answer"), [("leases", "jobs?worker=w", []), ("workers", "workers", [[]])]
)
def test_a_poll_does_not_wait_for_lists_of_work(live, monkeypatch, verb, path, answer):
    blocked = BlockedCall(answer)
    monkeypatch.setattr(live.runtime.store, verb, blocked)
    live.runtime.background.stop()

    require_polls_meanwhile(live, blocked, lambda: live.api.get(f"/v1/queues/default/{path}"))


@pytest.mark.parametrize(
    ("verb", "arguments"),
    [
        ("events", {"queue": None, "after": None, "limit": 1}),
        ("read_keys", {"prefix": [], "limit": 10_000}),
        ("leases", {"queue": "default"}),
        ("workers", {"queues": ["default"]}),
    ],
)
def test_a_poll_does_not_wait_for_long_lists_of_the_store(live, monkeypatch, verb, arguments):
    blocked = BlockedCall([])
    monkeypatch.setattr(store, "execute_within_rate", blocked)

    found = require_polls_meanwhile(
        live, blocked, lambda: live.api.post(f"/v1/store/{verb}", arguments)
    )

    assert found == [[]] * CLIENTS


def test_a_tenant_leaves_threads_to_the_others():
    async def run() -> None:
        work, resume = SlowWorkPool(), threading.Event()
        busy = [
            asyncio.ensure_future(work.call("greedy", resume.wait, 30))
            for _ in range(2 * THREAD_COUNT)
        ]
        try:
            assert await asyncio.wait_for(work.call("modest", lambda: "answered"), 10) == "answered"
        finally:
            resume.set()
        assert all(await asyncio.gather(*busy))
        work.close()

    asyncio.run(run())


class ByHeader:
    """The tenant is the one in a header; without it, the caller is an operator."""

    def is_known(self, _connection):
        return True

    async def authenticate(self, connection):
        tenant = connection.headers.get("x-tenant")
        return Principal(tenant or "default", frozenset(Scope), operator=tenant is None)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/queues/big/purge", None),
        ("DELETE", "/v1/queues/big?force=true", None),
        ("POST", "/v1/queues/big/rename", {"to": "other"}),
        ("POST", "/v1/queues/big/bulk", {"action": "delete", "filter": {}}),
    ],
)
def test_hanging_operations_of_two_tenants_delay_nobody(live, monkeypatch, method, path, body):
    store, blocked = live.runtime.store, BlockedCall(None)
    live.runtime.authenticator = ByHeader()
    for tenant in ("one", "two"):
        Queues(store, tenant)["big"].enqueue(1, id="a")
    # A purge and a drop begin with `purge`, a bulk act with `page`, a rename with both queues.
    for verb in ("purge", "page", "get"):
        monkeypatch.setattr(store, verb, hanging(getattr(store, verb), blocked))

    def act(tenant):
        url, headers = live.url + live.runtime.settings.base + path, {"x-tenant": tenant}
        return httpx.request(method, url, headers=headers, json=body, timeout=30).status_code

    with ThreadPoolExecutor(CLIENTS) as clients:
        acts = [clients.submit(act, tenant) for tenant in ("one", "two") for _ in range(4)]
        try:
            blocked.wait_for(2 * CALLS_PER_TENANT)

            figures = live.client.get("/metrics").text
            assert 'ackline_oldest_queued_seconds{queue="big",tenant="two"}' in figures
            assert live.client.get("/readyz").json()["ready"]
            assert live.api.get("/v1/search", text="x")["complete"]
            assert not any(act.done() for act in acts)
        finally:
            blocked.release()
        assert {act.result() for act in acts} <= {200, 404, 409}


def hanging(verb, blocked):
    """A method that is slow for the queue `big`."""

    def call(queue, *arguments, **options):
        if queue.name == "big" and threading.current_thread().name.startswith("ackline slow"):
            blocked()
        return verb(queue, *arguments, **options)

    return call


def test_a_cancelled_call_keeps_its_slot_until_it_ends():
    async def run() -> bool:
        work, blocked = SlowWorkPool(), BlockedCall("")
        left = [asyncio.create_task(work.call("greedy", blocked)) for _ in range(CALLS_PER_TENANT)]
        await asyncio.to_thread(blocked.wait_for, CALLS_PER_TENANT)
        for task in left:
            task.cancel()
        next_call = asyncio.create_task(work.call("greedy", str))
        done, _ = await asyncio.wait([next_call], timeout=0.2)
        blocked.release()
        await asyncio.wait([*left, next_call])
        work.close()
        return not done and all(task.cancelled() for task in left)

    assert asyncio.run(run())


def test_chunks_of_one_tenant_make_way_for_another():
    """With one thread: an endless operation, and a slow call of another tenant."""

    async def run() -> None:
        work, called = SlowWorkPool(threads=1), threading.Event()

        def endless():
            while not called.is_set():
                yield
            return "ended"

        acts = [
            asyncio.ensure_future(work.run_chunks("greedy", endless()))
            for _ in range(2 * CALLS_PER_TENANT)
        ]
        await asyncio.sleep(0)
        await asyncio.wait_for(work.call("modest", called.set), 10)
        assert await asyncio.gather(*acts) == ["ended"] * len(acts)
        work.close()

    asyncio.run(run())


def test_a_cancelled_operation_ends_between_two_chunks():
    async def run() -> None:
        work, resume, started, left = SlowWorkPool(), threading.Event(), threading.Event(), []

        def steps():
            try:
                started.set()
                assert resume.wait(10)
                yield
                started.clear()
                while True:
                    yield
            finally:
                left.append(threading.current_thread().name)

        act = asyncio.ensure_future(work.run_chunks("a", steps()))
        await asyncio.to_thread(started.wait, 10)
        act.cancel()
        resume.set()
        with pytest.raises(asyncio.CancelledError):
            await act
        assert [name.startswith("ackline slow") for name in left] == [True]
        work.close()

    asyncio.run(run())


def test_an_error_ends_the_chunks():
    async def run() -> None:
        work = SlowWorkPool()

        def steps():
            yield
            raise ValueError("no")

        with pytest.raises(ValueError, match="no"):
            await work.run_chunks("a", steps())
        assert await work.call("a", lambda: 1) == 1
        work.close()

    asyncio.run(run())


def test_more_than_can_wait_are_refused():
    async def run() -> None:
        work, resume = SlowWorkPool(), threading.Event()
        most = CALLS_PER_TENANT + MAX_WAITING_PER_TENANT
        waiting = [asyncio.ensure_future(work.call("a", resume.wait, 30)) for _ in range(most)]
        await asyncio.sleep(0)

        with pytest.raises(TooManySlowRequests):
            await work.call("a", lambda: None)

        resume.set()
        await asyncio.gather(*waiting)
        await work.call("a", lambda: None)
        work.close()

    asyncio.run(run())
