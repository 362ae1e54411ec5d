"""Requests for the same thing share one call, but not one that started before them."""

from __future__ import annotations

import asyncio
import threading

import pytest

from ackline.service.threads.single_flight import SingleFlight


class Calls:
    """Runs calls in threads, when the test says so."""

    def __init__(self) -> None:
        self.started = 0
        self.may_start = asyncio.Event()
        self.may_end = threading.Event()
        self.shared = SingleFlight()

    async def in_thread(self, function):
        await self.may_start.wait()
        return await asyncio.to_thread(function)

    def run(self):
        self.started += 1
        number = self.started
        assert self.may_end.wait(10)
        return number

    def request(self, key="a"):
        return asyncio.ensure_future(self.shared.call(key, self.run, self.in_thread))

    async def start(self):
        started = self.started
        self.may_start.set()
        while self.started == started:
            await asyncio.sleep(0)


def test_waiting_calls_share_an_execution():
    async def run() -> None:
        calls = Calls()
        together, other = [calls.request() for _ in range(5)], calls.request("b")
        await asyncio.sleep(0)
        calls.may_start.set()
        calls.may_end.set()

        assert len(set(await asyncio.gather(*together))) == 1
        assert await other not in await asyncio.gather(*together)
        assert calls.started == 2

    asyncio.run(run())


def test_a_started_call_is_not_joined():
    async def run() -> None:
        calls = Calls()
        first = calls.request()
        await asyncio.sleep(0)
        await calls.start()
        second = calls.request()
        calls.may_end.set()

        assert (await first, await second) == (1, 2)

    asyncio.run(run())


def test_a_cancelled_call_does_not_cancel_others():
    async def run() -> None:
        calls = Calls()
        first, second = calls.request(), calls.request()
        await asyncio.sleep(0)
        first.cancel()
        calls.may_start.set()
        calls.may_end.set()

        assert await second == 1
        assert first.cancelled()

    asyncio.run(run())


def test_an_error_is_raised_to_all_callers():
    async def run() -> None:
        calls = Calls()
        calls.may_start.set()
        calls.may_end.set()

        def fail() -> None:
            raise OSError("no")

        for _ in range(2):
            calls_of_one = [
                asyncio.ensure_future(calls.shared.call("a", fail, calls.in_thread))
                for _ in range(2)
            ]
            for one in calls_of_one:
                with pytest.raises(OSError, match="no"):
                    await one
        assert await calls.request() == 1

    asyncio.run(run())
