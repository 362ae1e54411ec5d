"""The dashboard in a real browser, against the real service."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

import ackline
from ackline.queue import Queue
from ackline.queues import Queues
from ackline.service import Settings
from ackline.service.runtime import Runtime
from ackline.service.server import Server, address_of, bind
from ackline.testing.servers.redis import RedisServer
from tests.dashboard.browser import launch
from tests.service.conftest import Api

SOON = 10_000
"""Milliseconds: far more than a change takes to be seen on a busy machine."""

_numbers = itertools.count(1)


class Board:
    """A service with its dashboard, and the same store for whoever works with it."""

    def __init__(self, runtime: Runtime, port: int = 0) -> None:
        self.runtime = runtime
        started = threading.Event()
        self._server = Server(runtime, started.set)
        settings = Settings(store="memory://", port=port)
        listener = bind(settings)
        self.port = int(listener.getsockname()[1])
        self.url = address_of(listener, settings)
        self._thread = threading.Thread(target=asyncio.run, args=[self._server.serve(listener)])
        self._thread.start()
        assert started.wait(10)
        self.client = httpx.Client(base_url=self.url, timeout=10)
        self.api = Api(self.client, runtime.settings.base)

    @property
    def queues(self) -> Queues:
        return Queues(self.runtime.store, "default")

    def __getitem__(self, queue: str) -> Queue[Any, Any]:
        return self.queues[queue]

    def acts(self, queue: str, id: str) -> list[tuple[str, str]]:
        """What happened to a job, and who did it."""
        events = self.api.get(f"/v1/queues/{queue}/jobs/{id}")["timeline"]
        return [(event["act"], event["by"]) for event in events]

    def stop(self) -> None:
        self._server.request_stop()
        self._thread.join(20)
        assert not self._thread.is_alive()
        self.client.close()


StartBoard = Callable[..., Board]


@pytest.fixture
def start_board() -> Iterator[StartBoard]:
    """Start a service on a store; it is stopped in the end."""
    started: list[Board] = []

    def start(store: str, port: int = 0, runtime: Runtime | None = None, **said: Any) -> Board:
        settings = Settings(store=store, sweep_every=0.2, ping_every=1.0, drain=0.0, **said)
        started.append(Board(runtime or Runtime.from_settings(settings), port))
        return started[-1]

    yield start
    for board in started:
        if board._thread.is_alive():
            board.stop()


@pytest.fixture
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """SQLite, unless a test is asked for with others."""
    sort = getattr(request, "param", "sqlite")
    if sort == "redis":
        server: RedisServer = request.getfixturevalue("redis_server")
        return f"{server.url}?prefix=dashboard{next(_numbers)}"
    return f"sqlite:///{tmp_path}/jobs.db?durability=normal"


@pytest.fixture
def board(start_board: StartBoard, store_url: str) -> Board:
    return start_board(store_url)


both_stores = pytest.mark.parametrize("store_url", ["sqlite", "redis"], indirect=True)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    # Not longer: as long as it is there, an event loop runs in this thread.
    with sync_playwright() as playwright:
        browser = launch(playwright)
        yield browser
        browser.close()


class Tab(Page):
    """A page that notes what went wrong in it. (For types: the page is made by the browser.)"""

    mistakes: list[str]


OpenTab = Callable[..., Tab]


@pytest.fixture
def open_tab(browser: Browser) -> Iterator[OpenTab]:
    """Open an address; errors of the page, and what its security policy refuses, fail the test."""
    contexts, tabs = [], []

    def open(address: str, **options: Any) -> Tab:
        settings = {"viewport": {"width": 1280, "height": 800}, "locale": "en-GB", **options}
        context = browser.new_context(**settings)
        contexts.append(context)
        page: Any = context.new_page()
        page.set_default_timeout(SOON)
        page.mistakes = []
        page.on("pageerror", lambda error: page.mistakes.append(str(error)))
        page.on("console", lambda message: _note(page.mistakes, message))
        tabs.append(page)
        if address:
            page.goto(address)
        return page  # type: ignore[no-any-return]

    expect.set_options(timeout=SOON)
    yield open
    mistakes = [mistake for tab in tabs for mistake in tab.mistakes]
    for context in contexts:
        context.close()
    assert mistakes == []


def _note(mistakes: list[str], message: ConsoleMessage) -> None:
    # A refused request is written down by the browser too; tests that cause one expect it.
    if message.type == "error" and "Failed to load resource" not in message.text:
        mistakes.append(message.text)


@pytest.fixture
def tab(open_tab: OpenTab, board: Board) -> Tab:
    return open_tab(f"{board.url}/")


def open_store(url: str) -> Queues:
    return ackline.open(url)
