"""Waiting for many queues at once: a bounded number of threads, and everyone is woken."""

from __future__ import annotations

import asyncio
import threading
from contextlib import AsyncExitStack, closing

import pytest

from ackline.job import QueueKey
from ackline.service import bells
from ackline.service.bells import Bells
from ackline.stores.memory import MemoryStore


def wait_for(names: list[list[str]]) -> int:
    """Wait until a waiter of each set of queues was woken twice; how many threads that took."""

    async def wait() -> int:
        before = threading.active_count()
        with closing(MemoryStore()) as store:
            store.open()
            waking = Bells(store)
            async with AsyncExitStack() as users:
                for queues in names:
                    keys = [QueueKey("default", queue) for queue in queues]
                    bell = await users.enter_async_context(waking.bell(keys, "ready"))
                    for _ in range(2):
                        woken = asyncio.Event()
                        bell.join(woken)
                        async with asyncio.timeout(10):
                            await woken.wait()
                threads = threading.active_count() - before
            waking.close()
        return threads

    return asyncio.run(wait())


def test_waiting_for_many_queues_takes_few_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bells, "LONGEST_WAIT", 0.05)
    monkeypatch.setattr(bells, "MAX_LISTENERS", 4, raising=False)

    assert wait_for([[f"queue-{n}"] for n in range(40)]) <= 4


def test_too_many_names_take_no_listener(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bells, "LONGEST_WAIT", 0.05)

    assert wait_for([[f"queue-{n}" for n in range(9_990)]]) == 0
