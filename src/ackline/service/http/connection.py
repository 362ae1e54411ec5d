"""Connections with time limits: a client that stalls is disconnected."""

from __future__ import annotations

import asyncio
import contextlib
import resource
from typing import TYPE_CHECKING

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from ackline.service.http.problems import MalformedHttp, RequestTimeout, raw_response

if TYPE_CHECKING:
    from ackline.service.settings import Settings

MIN_UPLOAD_RATE = 16 * 1024
"""Bytes per second that a client must send once `receive_timeout` has passed."""


class TimedConnection(H11Protocol):
    """A uvicorn connection with time limits; by itself it would wait forever.

    A request must be complete within `receive_timeout` of its first byte, the first request within
    that time of connecting; large bodies get more. A client must read within `send_timeout`.
    """

    receive_timeout: float
    send_timeout: float
    _receive_timer: asyncio.TimerHandle | None = None
    _send_timer: asyncio.TimerHandle | None = None
    _received = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_receive_timer()

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        super().data_received(data)
        self._update_timer()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._update_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_receive_timer()
        self.resume_writing()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._send_timer = self.loop.call_later(self.send_timeout, self.transport.abort)

    def resume_writing(self) -> None:
        if self._send_timer is not None:
            self._send_timer.cancel()
            self._send_timer = None
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Unlike uvicorn's, which is plain text and raises if a response has started."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            problem = MalformedHttp(f"{msg.rstrip('.')}: the connection is closed")
            self.transport.write(raw_response(problem))
        self.transport.close()

    @property
    def _request_incomplete(self) -> bool:
        """Whether a request has started but is not complete yet."""
        state = self.conn.their_state
        return state is h11.SEND_BODY or (state is h11.IDLE and bool(self.conn.trailing_data[0]))

    def _update_timer(self) -> None:
        if not self._request_incomplete:
            self._stop_receive_timer()
        elif self._receive_timer is None:
            self._start_receive_timer()

    def _start_receive_timer(self) -> None:
        self._received = 0
        self._receive_timer = self.loop.call_later(self.receive_timeout, self._on_receive_timeout)

    def _stop_receive_timer(self) -> None:
        if self._receive_timer is not None:
            self._receive_timer.cancel()
            self._receive_timer = None

    def _on_receive_timeout(self) -> None:
        # More time for clients that have sent a lot, and while reading is paused on our side.
        more = 1.0 if self.flow.read_paused else self._received / MIN_UPLOAD_RATE
        if more >= 1.0:
            self._received = 0
            self._receive_timer = self.loop.call_later(more, self._on_receive_timeout)
            return
        self._receive_timer = None
        answered = self.conn.their_state is h11.SEND_BODY and self.cycle.response_started
        if self._request_incomplete and not answered:
            self.transport.write(_TOO_SLOW)
        self.transport.close()


_TOO_SLOW = raw_response(RequestTimeout("the request did not arrive completely in time"))


def connection_class(settings: Settings) -> type[asyncio.Protocol]:
    """The connection class with the time limits of the settings."""
    time_limits = {
        "receive_timeout": settings.receive_timeout,
        "send_timeout": settings.send_timeout,
    }
    return type("Connection", (TimedConnection,), time_limits)


def raise_open_file_limit() -> None:
    """Raise the limit of open files to the system's maximum; the default is often 1,024."""
    _, maximum = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):  # keep the limit as it is
        resource.setrlimit(resource.RLIMIT_NOFILE, (maximum, maximum))
