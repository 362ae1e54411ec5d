"""The service and a trivial echo route: `python -m service_benchmark.server STORE`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from litestar import Litestar, post
from litestar.params import JSONBody

from ackline.service.app import create_app
from ackline.service.runtime import Runtime
from ackline.service.server import Server, bind, service_url
from ackline.service.settings import Settings
from ackline.service.webhooks.settings import WebhookSettings

RECEIVERS = WebhookSettings(networks=("127.0.0.0/8",), plain_http=True, receiver_concurrency=32)


@post("/echo", status_code=200)
async def echo(data: JSONBody[dict[str, Any]]) -> dict[str, Any]:
    """The fastest that this web server can be for a route that reads and writes JSON."""
    return data


def serve(store: str) -> None:
    """Serve both until a signal."""
    settings = Settings(store=store, port=0, webhooks=RECEIVERS)
    runtime = Runtime.from_settings(settings)
    service, plain = create_app(runtime=runtime), Litestar([echo], openapi_config=None)

    async def both(scope: Any, receive: Any, send: Any) -> None:
        await (plain if scope.get("path") == "/echo" else service)(scope, receive, send)

    listener = bind(settings)
    server = Server(runtime, lambda: print(service_url(listener, settings), flush=True))
    server._server.config.app = both
    server.run(listener)


@contextmanager
def serving(store: str) -> Iterator[int]:
    """A process that serves a store; yields its port."""
    server = subprocess.Popen(
        [sys.executable, "-m", "service_benchmark.server", store],
        cwd=Path(__file__).parents[1],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    try:
        yield int(server.stdout.readline().rpartition(":")[2])
    finally:
        server.terminate()
        server.wait(20)


if __name__ == "__main__":
    serve(sys.argv[1])
