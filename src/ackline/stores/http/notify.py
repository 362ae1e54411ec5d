"""Notifications by server-sent events: each listener has a stream and a thread that reads it."""

from __future__ import annotations

import http.client
import logging
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from typing import Self

from ackline.core.backoff import ExponentialDelay
from ackline.core.errors import AcklineError
from ackline.stores.contract import Subject
from ackline.stores.http.connection import ConnectionPool
from ackline.stores.http.errors import connection_error
from ackline.stores.wire import LISTENING, NOTIFICATION

logger = logging.getLogger("ackline")

POLL_INTERVAL = 1.0
"""Seconds between the polls of a subscription."""

RECONNECT_DELAYS = (0.05, 2.0)
"""Seconds between attempts to reconnect: the first and the last delay, doubled in between."""

_LISTENING, _NOTIFICATION = (f"event: {word}".encode() for word in (LISTENING, NOTIFICATION))


class HttpListener:
    """Waits for the notifications of one stream.

    A broken stream is requested again. Notifications may have been lost meanwhile, so `wait` then
    returns as if there were one.
    """

    def __init__(
        self,
        connections: ConnectionPool,
        call: bytes,
        tenant: str | None,
        idle_timeout: float,
        on_close: Callable[[HttpListener], None],
    ) -> None:
        self._connections = connections
        self._call = call
        self._tenant = tenant
        self._idle_timeout = idle_timeout
        """Seconds after which a silent stream counts as dead."""
        self._on_close = on_close
        self._woken = threading.Event()
        self._closing = threading.Event()
        self._connection, self._stream = self._subscribe()
        threading.Thread(target=self._run, name="ackline http notifications", daemon=True).start()

    def wait(self, timeout: float) -> bool:
        if not self._woken.wait(timeout):
            return False
        if not self._closing.is_set():
            self._woken.clear()
        return True

    def wake(self) -> None:
        self._woken.set()

    def close(self) -> None:
        if self._closing.is_set():
            return
        self._closing.set()
        self._woken.set()
        _shut_down(self._connection)
        self._on_close(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    # --- the stream ---

    def _subscribe(self) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """Request the stream; once it has started, no notification is lost."""
        connection = self._connections.connect(self._connections.address.timeout)
        try:
            headers = {**self._connections.headers(self._tenant), "Connection": "close"}
            connection.request("POST", self._connections.path_of("listen"), self._call, headers)
            sock = connection.sock
            stream = connection.getresponse()
            if stream.status != 200:
                raise self._connections.error_of(stream.status, stream.read())
            _read_until(stream, _LISTENING)
            sock.settimeout(self._idle_timeout)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise connection_error(self._connections.where, error) from error
        except BaseException:
            connection.close()
            raise
        # The response has taken over the socket, which is needed to end the stream.
        connection.sock = sock
        return connection, stream

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                while not self._closing.is_set():
                    _read_until(self._stream, _NOTIFICATION)
                    self._woken.set()
            except (OSError, http.client.HTTPException, ValueError) as error:
                if not self._closing.is_set():
                    where = self._connections.where
                    logger.warning("%s: the notification stream ended: %r", where, error)
            self._close_stream()
            self._woken.set()
            self._reconnect()
        self._close_stream()

    def _reconnect(self) -> None:
        delays = ExponentialDelay(*RECONNECT_DELAYS)
        while not self._closing.wait(delays.next()):
            with suppress(AcklineError):
                self._connection, self._stream = self._subscribe()
                self._woken.set()
                return

    def _close_stream(self) -> None:
        with suppress(OSError, ValueError):
            self._stream.close()
        self._connection.close()


class HttpSubscription:
    """Reports once a second that anything may have happened.

    A notification stream has fixed queues, and its events do not say which of them they concern.
    """

    def __init__(self) -> None:
        self._subjects: set[Subject] = set()
        self._added: set[Subject] = set()
        self._woken = threading.Event()
        self._due_at = time.monotonic() + POLL_INTERVAL

    def add(self, subjects: Iterable[Subject]) -> None:
        added = set(subjects)
        self._subjects |= added
        self._added |= added

    def remove(self, subjects: Iterable[Subject]) -> None:
        self._subjects.difference_update(subjects)
        self._added &= self._subjects

    def wait(self, timeout: float) -> Collection[Subject] | None:
        if self._added:
            added, self._added = self._added, set()
            return added
        if not self._subjects:
            self._woken.wait(timeout)
        else:
            self._woken.wait(min(timeout, max(0.0, self._due_at - time.monotonic())))
        self._woken.clear()
        if self._subjects and time.monotonic() >= self._due_at:
            self._due_at = time.monotonic() + POLL_INTERVAL
            return None
        return ()

    def wake(self) -> None:
        self._woken.set()

    def close(self) -> None:
        self._woken.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def _read_until(stream: http.client.HTTPResponse, wanted: bytes) -> None:
    """Read up to an event of this name, skipping pings and data."""
    while (line := stream.readline()).rstrip() != wanted:
        if not line:
            raise http.client.IncompleteRead(b"")


def _shut_down(connection: http.client.HTTPConnection) -> None:
    """Shut down the socket, which ends the read in another thread."""
    sock = connection.sock
    if sock is not None:
        with suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)
