"""The dashboard in a real browser, against the real service."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Page,
    expect,
    sync_playwright,
)

from ackline.queue import Queue
from ackline.queues import DEFAULT_TENANT, Queues
from ackline.service import Settings
from ackline.service.auth.authenticator import Connection
from ackline.service.auth.principal import LOOPBACK_PRINCIPAL, Principal
from ackline.service.runtime import Runtime
from ackline.service.server import Server, bind, service_url
from ackline.stores.registry import store_from_url
from tests.dashboard.browser import launch
from tests.harness.servers.redis import RedisServer
from tests.service.conftest import Api
from tests.store_choice import choose_stores

SOON = 10_000
"""Milliseconds: far more than a change takes to be seen on a busy machine."""

QUICK: dict[str, Any] = {"sweep_every": 0.2, "ping_every": 1.0, "drain": 0.0}
USUAL: dict[str, Any] = {
    "viewport": {"width": 1280, "height": 800},
    "locale": "en-GB",
    # While elements fade in, contrast is measured too early; and each fade costs a frame.
    "reduced_motion": "reduce",
}

BLANK = "about:blank"
FORGET = "() => { localStorage.clear(); sessionStorage.clear() }"

_numbers = itertools.count(1)


@pytest.hookimpl(tryfirst=True)  # before xdist, which reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One process runs all of them: they share a browser and two services."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("dashboard"))


class AnyoneOfTenant:
    """Lets everybody in, as one of a tenant: tests that share a store are tenants of it."""

    def __init__(self) -> None:
        self.tenant = DEFAULT_TENANT

    def is_known(self, _connection: Connection) -> bool:
        return True

    async def authenticate(self, _connection: Connection) -> Principal:
        return msgspec.structs.replace(LOOPBACK_PRINCIPAL, tenant=self.tenant)


class Dashboard:
    """A service with its dashboard, and its store for workers and producers."""

    def __init__(self, runtime: Runtime, port: int = 0) -> None:
        self.runtime = runtime
        self.tenant = DEFAULT_TENANT
        started = threading.Event()
        self._server = Server(runtime, started.set)
        settings = Settings(store="memory://", port=port)
        listener = bind(settings)
        self.port = int(listener.getsockname()[1])
        self.url = service_url(listener, settings)
        self._thread = threading.Thread(target=asyncio.run, args=[self._server.serve(listener)])
        self._thread.start()
        assert started.wait(10)
        self.client = httpx.Client(base_url=self.url, timeout=10)
        self.api = Api(self.client, runtime.settings.base)

    @property
    def queues(self) -> Queues:
        return Queues(self.runtime.store, self.tenant)

    def __getitem__(self, queue: str) -> Queue[Any, Any]:
        return self.queues[queue]

    def acts(self, queue: str, id: str) -> list[tuple[str, str]]:
        """What happened to a job, and who did it."""
        events = self.api.get(f"/v1/queues/{queue}/jobs/{id}")["timeline"]
        return [(event["act"], event["by"]) for event in events]

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def stop(self) -> None:
        self._server.request_stop()
        self._thread.join(20)
        assert not self._thread.is_alive()
        self.client.close()


StartDashboard = Callable[..., Dashboard]


@pytest.fixture
def start_dashboard() -> Iterator[StartDashboard]:
    """Start a service on a store; it is stopped in the end."""
    started: list[Dashboard] = []

    def start(
        store: str, port: int = 0, runtime: Runtime | None = None, **options: Any
    ) -> Dashboard:
        settings = Settings(store=store, **QUICK, **options)
        started.append(Dashboard(runtime or Runtime.from_settings(settings), port))
        return started[-1]

    yield start
    for dashboard in started:
        if dashboard.running:
            dashboard.stop()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    choose_stores(metafunc, "sqlite", "redis")


def url_of(store: str, folder: Path, request: pytest.FixtureRequest) -> str:
    """An empty store."""
    if store == "redis":
        server: RedisServer = request.getfixturevalue("redis_server")
        return f"{server.url}?prefix=dashboard{next(_numbers)}"
    return f"sqlite:///{folder}/jobs.db?durability=normal"


@pytest.fixture(scope="package")
def shared_dashboards(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], Dashboard]]:
    """A service on each store, for all tests that need none of their own."""
    dashboards: dict[str, Dashboard] = {}

    def find(store: str) -> Dashboard:
        if store not in dashboards:
            url = url_of(store, tmp_path_factory.mktemp("dashboard"), request)
            settings = Settings(store=url, **QUICK)
            dashboards[store] = Dashboard(Runtime(settings, store_from_url(url), AnyoneOfTenant()))
        return dashboards[store]

    yield find
    for dashboard in dashboards.values():
        dashboard.stop()


@pytest.fixture
def dashboard(store_name: str, shared_dashboards: Callable[[str], Dashboard]) -> Dashboard:
    """A service, and in its store a tenant of the test's own."""
    dashboard = shared_dashboards(store_name)
    anyone = dashboard.runtime.authenticator
    assert isinstance(anyone, AnyoneOfTenant)
    dashboard.tenant = anyone.tenant = f"test-{next(_numbers)}"
    return dashboard


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    # Not for the session: while it is open, an event loop runs in this thread.
    with sync_playwright() as playwright:
        browser = launch(playwright)
        yield browser
        browser.close()


class Tab(Page):
    """A page that records its errors. (For types only: the browser creates the page.)"""

    errors: list[str]


OpenTab = Callable[..., Tab]


def new_tab(browser: Browser, **options: Any) -> Tab:
    page: Any = browser.new_context(**(USUAL | options)).new_page()
    page.set_default_timeout(SOON)
    page.errors = []
    page.on("pageerror", lambda error: page.errors.append(str(error)))
    page.on("console", lambda message: _record(page.errors, message))
    return page  # type: ignore[no-any-return]


@pytest.fixture(scope="package")
def usual_tab(browser: Browser) -> Tab:
    """The tab of tests without options: a new one costs more than most tests."""
    return new_tab(browser)


@pytest.fixture
def open_tab(browser: Browser, usual_tab: Tab) -> Iterator[OpenTab]:
    """Open an address; errors of the page, and what its security policy refuses, fail the test.

    All tests share one tab, blank in between. A test that needs options, or a `fresh` tab to add
    listeners or scripts to, gets a tab of its own.
    """
    own: list[Tab] = []

    def open(address: str = "", *, fresh: bool = False, **options: Any) -> Tab:
        tab = usual_tab
        if fresh or options:
            tab = new_tab(browser, **options)
            own.append(tab)
        if address:
            tab.goto(address)
        return tab

    expect.set_options(timeout=SOON)
    yield open
    errors = [error for tab in (usual_tab, *own) for error in tab.errors]
    for tab in own:
        tab.context.close()
    leave(usual_tab)
    assert errors == []


def leave(tab: Tab) -> None:
    """Reset the tab to a blank page without storage."""
    if tab.url != BLANK:
        tab.evaluate(FORGET)
        tab.goto(BLANK)
    tab.errors.clear()


def _record(errors: list[str], message: ConsoleMessage) -> None:
    # The browser also logs refused requests; tests that cause one expect it.
    if message.type == "error" and "Failed to load resource" not in message.text:
        errors.append(message.text)


@pytest.fixture
def tab(open_tab: OpenTab) -> Tab:
    """A blank tab."""
    return open_tab()
