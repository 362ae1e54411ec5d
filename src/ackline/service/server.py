"""One process of the service on its sockets: from the first request to a shutdown without loss."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import logging
import socket
import time
from collections.abc import Callable, Generator
from typing import Any

import uvicorn
from litestar.types import ASGIApp

from ackline.core.errors import ConfigError
from ackline.service.app import create_app
from ackline.service.http.connection import connection_class, raise_open_file_limit
from ackline.service.runtime import Runtime
from ackline.service.settings import Settings
from ackline.worker.processes.stop_signals import handle_stop_signals

logger = logging.getLogger("ackline.service")

BACKLOG = 2048

WAIT_FOR_PORT, PORT_RETRY_EVERY = 5.0, 0.1
"""Seconds to wait for a port that is in use, and between two tries."""

ACCEPT_BATCH = 64
"""Connections that asyncio accepts before it handles other events. Without free file descriptors,
it fails and reports this many times per second."""

RESOURCE_ERRNOS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

REPORT_EVERY = 60.0
"""Seconds between two log lines saying that connections cannot be accepted."""


FULL_GC_EVERY = 600.0
"""Seconds between two full garbage collections."""

NEVER = 1_000_000_000


def bind(settings: Settings) -> socket.socket:
    """Bind the address first, so that the port is known before anything else starts."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # The protocol is named because asyncio sets TCP_NODELAY only then: a response, which is
    # written in two pieces, would otherwise wait 40 ms for the client's acknowledgement.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        _listen(listener, settings)
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"cannot listen on {_address(settings)}: {error.strerror or error}. "
            "Choose another port with --port (0 takes any that is free)"
        ) from None
    return listener


def _listen(listener: socket.socket, settings: Settings) -> None:
    """Listen; a port in use may become free soon, if its service was killed just now."""
    until = time.monotonic() + WAIT_FOR_PORT
    bound = waiting = False
    while True:
        try:
            if not bound:
                listener.bind((settings.host, settings.port))
                bound = True
            # From here on, clients wait instead of being refused, whichever process serves them.
            listener.listen(BACKLOG)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or time.monotonic() >= until:
                raise
        else:
            return
        if not waiting:
            logger.warning(
                "%s is in use, waiting up to %g s for it", _address(settings), WAIT_FOR_PORT
            )
        waiting = True
        time.sleep(PORT_RETRY_EVERY)


def _address(settings: Settings) -> str:
    return f"{settings.host} port {settings.port}"


def service_url(listener: socket.socket, settings: Settings) -> str:
    """The URL of the service."""
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"http://{host}:{listener.getsockname()[1]}"


class UvicornServer(uvicorn.Server):
    """A uvicorn server that does not handle signals: `Server` drains before uvicorn shuts down."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


def postpone_full_gc() -> None:
    """Leave full garbage collections to `Server`, which runs one every few minutes.

    Thousands of waiting requests are a million objects. A full collection takes a second, and
    Python would run one every few seconds, whenever the number of objects has grown by a quarter.
    Garbage of finished requests is found among the young objects.
    """
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, NEVER)
    gc.freeze()


class AcceptErrorHandler:
    """An exception handler of the event loop that reports exhausted file descriptors seldom."""

    def __init__(self) -> None:
        self._report_at = float("-inf")

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno not in RESOURCE_ERRNOS:
            loop.default_exception_handler(context)
        elif time.monotonic() >= self._report_at:
            self._report_at = time.monotonic() + REPORT_EVERY
            logger.error(
                "cannot accept connections: %s. New clients wait until others disconnect; "
                "raise the limit of open files (ulimit -n)",
                error.strerror,
            )


class Server:
    """Serves until stopped; then it fails its readiness, ends streams and closes connections."""

    def __init__(
        self,
        runtime: Runtime,
        on_start: Callable[[], None] | None = None,
        app: ASGIApp | None = None,
    ) -> None:
        self._runtime = runtime
        self._on_start = on_start
        settings = runtime.settings
        config = uvicorn.Config(
            app or create_app(runtime=runtime),
            http=connection_class(settings),
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="on",
            backlog=ACCEPT_BATCH,
            timeout_keep_alive=settings.idle_timeout,  # type: ignore[arg-type]
            timeout_graceful_shutdown=max(1, round(settings.grace)),
        )
        logging.getLogger("uvicorn").setLevel(logging.WARNING)
        self._server = UvicornServer(config)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop_requested = False
        self._port_closed = False

    def run(self, listener: socket.socket) -> None:
        """Serve on this socket until SIGTERM, SIGINT or SIGHUP; a second one stops immediately."""
        raise_open_file_limit()
        postpone_full_gc()
        restore_signals = handle_stop_signals(lambda _number: self.request_stop())
        try:
            factory = self._server.config.get_loop_factory()
            with asyncio.Runner(loop_factory=factory) as runner:
                runner.run(self.serve(listener))
        finally:
            restore_signals()

    def close_port(self) -> None:
        """Close the port now; open connections are still served. Thread-safe."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._close_port)

    def request_stop(self) -> None:
        """Start a graceful stop; a second call stops immediately. Thread-safe."""
        repeated, self._stop_requested = self._stop_requested, True
        if repeated:
            self._server.force_exit = self._server.should_exit = True
        elif self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._drain)

    async def serve(self, listener: socket.socket) -> None:
        """Serve on this socket until `request_stop`."""
        self._loop = asyncio.get_running_loop()
        if self._stop_requested:
            return
        self._loop.set_exception_handler(AcceptErrorHandler())
        started = self._loop.create_task(self._on_started(listener))
        collector = self._loop.create_task(self._run_full_gc())
        try:
            await self._server.serve([listener])
        finally:
            started.cancel()
            collector.cancel()

    async def _on_started(self, listener: socket.socket) -> None:
        while not self._server.started:
            await asyncio.sleep(0.01)
        if self._port_closed:
            self._close_port()
            return
        listener.listen(BACKLOG)  # asyncio has set the backlog to ACCEPT_BATCH
        if self._on_start is not None:
            self._on_start()

    async def _run_full_gc(self) -> None:
        while True:
            await asyncio.sleep(FULL_GC_EVERY)
            gc.collect()

    def _close_port(self) -> None:
        self._port_closed = True  # not started yet: `_on_started` closes it
        if self._server.started:
            for port in self._server.servers:
                port.close()

    def _drain(self) -> None:
        logger.info("shutting down: no longer ready, closing streams")
        self._runtime.drain()
        loop = asyncio.get_running_loop()
        loop.call_later(self._runtime.settings.drain, self._exit)

    def _exit(self) -> None:
        self._server.should_exit = True
