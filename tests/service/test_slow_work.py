"""Long looks keep nobody from the short calls, nor one tenant another."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from ackline.service import journal
from ackline.service.routes.v1 import search, store
from ackline.service.slow_work import AT_ONCE, MOST_WAITING, THREADS, SlowWork, TooManyLooks
from ackline.service.tail import Tail
from ackline.service.webhooks import desk
from ackline.stores.base import Page

LOOKS = 16


class Held:
    """A long look: it goes on when the test says so."""

    def __init__(self, answer):
        self.answer = answer
        self._begun = threading.Semaphore(0)
        self._go_on = threading.Event()

    def __call__(self, *_arguments, **_options):
        self._begun.release()
        assert self._go_on.wait(30)
        return self.answer

    def wait_for(self, count):
        for _ in range(count):
            assert self._begun.acquire(timeout=10)

    def let_go(self):
        self._go_on.set()


def require_polls_meanwhile(live, held, look):
    """More looks than there are threads for short calls, and a poll that is not kept by them."""
    live.api.enqueue(1, id="a")
    with ThreadPoolExecutor(LOOKS) as clients:
        found = [clients.submit(look) for _ in range(LOOKS)]
        try:
            held.wait_for(AT_ONCE)

            assert live.api.get("/queue/poll")["message"]["id"] == "a"
            assert not any(one.done() for one in found)
        finally:
            held.let_go()
        return [one.result() for one in found]


def test_a_poll_does_not_wait_for_searches(live, monkeypatch):
    held = Held(search.Found([], complete=True))
    monkeypatch.setattr(search._Search, "run", held)

    found = require_polls_meanwhile(live, held, lambda: live.api.get("/v1/search", text="x"))

    assert [one["complete"] for one in found] == [True] * LOOKS


def test_a_poll_does_not_wait_for_looks_back_into_the_journal(live, monkeypatch):
    held = Held(Tail([], complete=True))
    monkeypatch.setattr(journal, "look_back", held)

    found = require_polls_meanwhile(
        live, held, lambda: live.api.get("/v1/events", last=10, text="x")
    )

    assert [one["complete"] for one in found] == [True] * LOOKS


def test_a_poll_does_not_wait_for_lists_of_deliveries(live, monkeypatch):
    held = Held(Page([], None))
    monkeypatch.setattr(desk, "read_page", held)
    id = live.api.post("/v1/webhooks", {"url": "https://example.com/"}, 201)["id"]

    found = require_polls_meanwhile(
        live, held, lambda: live.api.get(f"/v1/webhooks/{id}/deliveries")
    )

    assert [one["deliveries"] for one in found] == [[]] * LOOKS


@pytest.mark.parametrize(("verb", "path"), [("leases", "held"), ("workers", "workers")])
def test_a_poll_does_not_wait_for_lists_of_work(live, monkeypatch, verb, path):
    held = Held([])
    monkeypatch.setattr(live.runtime.store, verb, held)
    live.runtime.caretaker.stop()

    require_polls_meanwhile(live, held, lambda: live.api.get(f"/v1/queues/default/{path}"))


@pytest.mark.parametrize(
    ("verb", "arguments"),
    [
        ("events", {"queue": None, "after": None, "limit": 1}),
        ("read_keys", {"prefix": [], "limit": 10_000}),
        ("leases", {"queue": "default"}),
        ("workers", {"queue": "default"}),
    ],
)
def test_a_poll_does_not_wait_for_long_lists_of_the_store(live, monkeypatch, verb, arguments):
    held = Held([])
    monkeypatch.setattr(store, "ask_within_rate", held)

    found = require_polls_meanwhile(
        live, held, lambda: live.api.post(f"/v1/store/{verb}", arguments)
    )

    assert found == [[]] * LOOKS


def test_a_tenant_leaves_threads_to_the_others():
    async def run() -> None:
        work, go_on = SlowWork(), threading.Event()
        greedy = [
            asyncio.ensure_future(work.call("greedy", go_on.wait, 30)) for _ in range(2 * THREADS)
        ]
        try:
            assert await asyncio.wait_for(work.call("modest", lambda: "answered"), 10) == "answered"
        finally:
            go_on.set()
        assert all(await asyncio.gather(*greedy))
        work.close()

    asyncio.run(run())


def test_more_than_can_wait_are_refused():
    async def run() -> None:
        work, go_on = SlowWork(), threading.Event()
        most = AT_ONCE + MOST_WAITING
        waiting = [asyncio.ensure_future(work.call("a", go_on.wait, 30)) for _ in range(most)]
        await asyncio.sleep(0)

        with pytest.raises(TooManyLooks):
            await work.call("a", lambda: None)

        go_on.set()
        await asyncio.gather(*waiting)
        await work.call("a", lambda: None)
        work.close()

    asyncio.run(run())
