"""The service without a socket, on a socket in this process, and as a separate process."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import signal
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from litestar import Litestar
from litestar.testing import TestClient
from litestar.types import ASGIApp

import ackline
from ackline.service import Settings
from ackline.service.app import create_routes, with_runtime
from ackline.service.routes.openapi import complete_openapi
from ackline.service.runtime import Runtime
from ackline.service.server import Server, bind, service_url
from tests.certificates import make_certificate
from tests.service.webhook_receiver import Receiver
from tests.store_choice import STORES, choose_stores

SOURCE = Path(ackline.__file__).parents[1]
ROOT = Path(__file__).parents[2]
HERE = "http://service.localhost"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    choose_stores(metafunc, *STORES)


class Api:
    """Calls routes by their path below the base path, and checks the status."""

    def __init__(self, client: Any, base: str) -> None:
        self.client = client
        self.base = base

    def __call__(self, method: str, path: str, status: int = 200, **options: Any) -> Any:
        answer = self.client.request(method, self.base + path, **options)
        assert answer.status_code == status, f"{answer.status_code}: {answer.text}"
        return answer.json() if answer.content else None

    def get(self, path: str, status: int = 200, **query: Any) -> Any:
        return self("GET", path, status, params=query or None)

    def post(self, path: str, body: Any = None, status: int = 200, **options: Any) -> Any:
        return self("POST", path, status, **({} if body is None else {"json": body}), **options)

    def put(self, path: str, body: Any, status: int = 200) -> Any:
        return self("PUT", path, status, json=body)

    def patch(self, path: str, body: Any, status: int = 200) -> Any:
        return self("PATCH", path, status, json=body)

    def delete(self, path: str, status: int = 200, **query: Any) -> Any:
        return self("DELETE", path, status, params=query or None)

    def send(self, body: bytes, path: str = "/queue/enqueue", status: int = 400) -> Any:
        """The response as bytes."""
        headers = {"content-type": "application/json"}
        return self("POST", path, status, content=body, headers=headers)

    def enqueue(self, value: Any = 1, **options: Any) -> str:
        body = {"value": value, "options": options}
        return str(self.post("/queue/enqueue", body)["id"])


@pytest.fixture(scope="session")
def some_certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificate(tmp_path_factory.mktemp("authority"), "authority.example")


@pytest.fixture(scope="module", autouse=True)
def few_authorities(some_certificate: Path) -> Iterator[None]:
    """Trust one certificate instead of the system's, which each client would read again."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("SSL_CERT_FILE", str(some_certificate))
        yield


_idle_routes: defaultdict[tuple[object, ...], list[Litestar]] = defaultdict(list)
"""Routes for reuse: creating them is most of the cost of starting a service."""


@contextlib.contextmanager
def application(runtime: Runtime) -> Iterator[ASGIApp]:
    """The application of a runtime, on routes that an earlier test has finished with."""
    settings = runtime.settings
    idle = _idle_routes[settings.base_path, settings.max_body, settings.max_payload]
    routes = idle.pop() if idle else create_routes(settings)
    yield with_runtime(routes, runtime)
    idle.append(routes)
    assert undocumented(runtime) == []


@functools.cache
def documented() -> dict[tuple[str, str], set[str]]:
    """The documented statuses of each method and path."""
    routes = create_routes(Settings(store="memory://"))
    paths = complete_openapi(routes.openapi_schema.to_schema())["paths"]
    return {
        (method.upper(), path): set(operation["responses"])
        for path, operations in paths.items()
        for method, operation in operations.items()
    }


UNDOCUMENTED = {"405", "499", "500"}
"""Statuses that are not documented: unknown routes, disconnected clients, internal errors."""


def undocumented(runtime: Runtime) -> list[tuple[str, str, str]]:
    """The responses so far with undocumented statuses."""
    (family,) = runtime.metrics.requests.count.collect()
    responses = {
        (sample.labels["method"], sample.labels["route"], sample.labels["status"])
        for sample in family.samples
    }
    return sorted(
        (method, route, status)
        for method, route, status in responses
        if status not in documented().get((method, route), {status}) | UNDOCUMENTED
    )


@contextlib.contextmanager
def client_for(served: Runtime | Settings, base_url: str = HERE) -> Iterator[TestClient[Any]]:
    """A client of the service without a socket."""
    runtime = Runtime.from_settings(served) if isinstance(served, Settings) else served
    with application(runtime) as app, TestClient(app, base_url=base_url) as client:
        yield client


@pytest.fixture
def settings() -> Settings:
    return Settings(store="memory://", drain=0.0)


@pytest.fixture
def runtime(settings: Settings) -> Runtime:
    return Runtime.from_settings(settings)


@pytest.fixture
def api(runtime: Runtime) -> Iterator[Api]:
    """The service without a socket."""
    with client_for(runtime) as client:
        yield Api(client, runtime.settings.base)


class Live:
    """The service on a socket, in a thread of this process."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self._stop_requested = False
        self._routes = contextlib.ExitStack()
        app = self._routes.enter_context(application(runtime))
        started = threading.Event()
        self.server = Server(runtime, started.set, app)
        listener = bind(msgspec.structs.replace(runtime.settings, port=0))
        self.url = service_url(listener, runtime.settings)
        self._thread = threading.Thread(target=asyncio.run, args=[self.server.serve(listener)])
        self._thread.start()
        assert started.wait(10)
        self.client = httpx.Client(base_url=self.url, timeout=10)
        self.api = Api(self.client, runtime.settings.base)

    def request_stop(self) -> None:
        """Only once: a second request stops immediately."""
        if not self._stop_requested:
            self._stop_requested = True
            self.server.request_stop()

    def stop(self) -> None:
        self.request_stop()
        self._thread.join(20)
        assert not self._thread.is_alive()
        self.client.close()
        self._routes.close()


@pytest.fixture
def live(runtime: Runtime) -> Iterator[Live]:
    running = Live(runtime)
    yield running
    running.stop()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()


class Process:
    """`ackline serve` as a separate process."""

    def __init__(
        self, folder: Path, *arguments: str, kill_point: str | None = None, **environment: str
    ) -> None:
        program = ["ackline"] if kill_point is None else ["tests.service.kill_points", kill_point]
        self.process = subprocess.Popen(
            [sys.executable, "-m", *program, "serve", "--port", "0", *arguments],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": f"{SOURCE}:{ROOT}", **environment},
        )
        self.url = self.wait_for("serving").rpartition(" at ")[2].split(" by ")[0].strip()

    def wait_for(self, word: str) -> str:
        assert self.process.stderr is not None
        seen = []
        for line in self.process.stderr:
            seen.append(line)
            if word in line:
                return line
        raise AssertionError(f"{word!r} never came: {''.join(seen)}")

    def end(self, number: signal.Signals = signal.SIGTERM, timeout: float = 20) -> str:
        """The rest of its output."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        _, output = self.process.communicate(timeout=timeout)
        return output


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Process]]:
    started: list[Process] = []

    def begin(*arguments: str, **options: Any) -> Process:
        started.append(Process(tmp_path, *arguments, **options))
        return started[-1]

    yield begin
    for process in started:
        process.end(signal.SIGKILL)
