"""The service in this process without a socket, on a socket, and as a process of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from litestar.testing import TestClient

import ackline
from ackline.service import Settings, create_app
from ackline.service.runtime import Runtime
from ackline.service.server import Server, address_of, bind

SOURCE = Path(ackline.__file__).parents[1]
ROOT = Path(__file__).parents[2]
HERE = "http://service.localhost"


class Api:
    """Calls routes by their path behind the base path, and expects them to be answered so."""

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
        """Bytes as they are."""
        headers = {"content-type": "application/json"}
        return self("POST", path, status, content=body, headers=headers)

    def enqueue(self, value: Any = 1, **options: Any) -> str:
        body = {"value": value, "options": options}
        return str(self.post("/queue/enqueue", body)["id"])


@pytest.fixture
def settings() -> Settings:
    return Settings(store="memory://")


@pytest.fixture
def runtime(settings: Settings) -> Runtime:
    return Runtime.from_settings(settings)


@pytest.fixture
def api(runtime: Runtime) -> Iterator[Api]:
    """The service without a socket."""
    with TestClient(create_app(runtime=runtime), base_url=HERE) as client:
        yield Api(client, runtime.settings.base)


class Live:
    """The service on a socket, in a thread of this process."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self._stop_asked = False
        started = threading.Event()
        self.server = Server(runtime, started.set)
        listener = bind(msgspec.structs.replace(runtime.settings, port=0))
        self.url = address_of(listener, runtime.settings)
        self._thread = threading.Thread(target=asyncio.run, args=[self.server.serve(listener)])
        self._thread.start()
        assert started.wait(10)
        self.client = httpx.Client(base_url=self.url, timeout=10)
        self.api = Api(self.client, runtime.settings.base)

    def request_stop(self) -> None:
        """Once: a second request does not wait for anything."""
        if not self._stop_asked:
            self._stop_asked = True
            self.server.request_stop()

    def stop(self) -> None:
        self.request_stop()
        self._thread.join(20)
        assert not self._thread.is_alive()
        self.client.close()


@pytest.fixture
def live(runtime: Runtime) -> Iterator[Live]:
    running = Live(runtime)
    yield running
    running.stop()


class Process:
    """`ackline serve` as a process of its own."""

    def __init__(
        self, place: Path, *arguments: str, dies: str | None = None, **environment: str
    ) -> None:
        program = ["ackline"] if dies is None else ["tests.service.dying", dies]
        self.process = subprocess.Popen(
            [sys.executable, "-m", *program, "serve", "--port", "0", *arguments],
            cwd=place,
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
        """What it still said."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        _, said = self.process.communicate(timeout=timeout)
        return said


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Process]]:
    started: list[Process] = []

    def begin(*arguments: str, **options: Any) -> Process:
        started.append(Process(tmp_path, *arguments, **options))
        return started[-1]

    yield begin
    for process in started:
        process.end(signal.SIGKILL)
