"""The service in a thread of this process, on a free port."""

from __future__ import annotations

import asyncio
import threading
from typing import Self

from ackline.service.runtime import Runtime
from ackline.service.server import Server, bind, service_url
from tests.harness.servers.errors import ServerTimeout

START_TIMEOUT = 20.0
"""Seconds for its start, and for its stop."""


class ServiceThread:
    """A context in which a runtime is served.

    >>> with ServiceThread(Runtime.from_settings(Settings(port=0))) as service:  # doctest: +SKIP
    ...     queues = ackline.open(service.url)
    """

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self._started = threading.Event()
        self._server = Server(runtime, self._started.set)
        self._listener = bind(runtime.settings)
        self.url = service_url(self._listener, runtime.settings) + runtime.settings.base
        serving = self._server.serve(self._listener)
        self._thread = threading.Thread(target=asyncio.run, args=[serving], name="ackline service")

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._started.wait(START_TIMEOUT):
            raise ServerTimeout(f"the service did not start within {START_TIMEOUT:g} s")
        return self

    def __exit__(self, *_error: object) -> None:
        self._server.request_stop()
        self._thread.join(START_TIMEOUT)
        if self._thread.is_alive():
            raise ServerTimeout(f"the service did not stop within {START_TIMEOUT:g} s")
