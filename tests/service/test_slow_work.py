"""Long looks keep nobody from the short calls, nor one tenant another."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from ackline.service.routes.v1 import search
from ackline.service.slow_work import AT_ONCE, MOST_WAITING, THREADS, SlowWork, TooManyLooks

SEARCHES = 16


def test_a_poll_does_not_wait_for_searches(live, monkeypatch):
    begun, go_on = threading.Semaphore(0), threading.Event()

    def look(*_arguments: object) -> search.Found:
        begun.release()
        assert go_on.wait(30)
        return search.Found([], complete=True)

    monkeypatch.setattr(search._Search, "run", look)
    live.api.enqueue(1, id="a")
    with ThreadPoolExecutor(SEARCHES) as clients:
        found = [clients.submit(live.api.get, "/v1/search", text="x") for _ in range(SEARCHES)]
        try:
            for _ in range(AT_ONCE):
                assert begun.acquire(timeout=10)

            assert live.api.get("/queue/poll")["message"]["id"] == "a"
            assert not any(one.done() for one in found)
        finally:
            go_on.set()
        assert [one.result()["complete"] for one in found] == [True] * SEARCHES


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
