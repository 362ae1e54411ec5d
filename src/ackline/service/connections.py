"""Connections with time limits: a client that sends half a request or does not read is dropped."""

from __future__ import annotations

import asyncio
import contextlib
import resource

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from ackline.service.problems import NotHttp, TooSlow, raw_answer
from ackline.service.settings import Settings

SLOWEST = 16 * 1024
"""Bytes that a client must send per second once the time for a small request is over."""


class Connection(H11Protocol):
    """Adds time limits to uvicorn's connection, which would wait forever.

    A request has to be complete within `receive_timeout` of its first byte, the first one within
    as long of connecting; a large body has longer. A client has to read within `send_timeout`.
    """

    receive_timeout: float
    send_timeout: float
    _overdue: asyncio.TimerHandle | None = None
    _stalled: asyncio.TimerHandle | None = None
    _received = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_request()

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        super().data_received(data)
        self._update_timer()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._update_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_request()
        self.resume_writing()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalled = self.loop.call_later(self.send_timeout, self.transport.abort)

    def resume_writing(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Uvicorn's own is plain text, and raises if an answer is under way."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            answer = NotHttp(f"{msg.rstrip('.')}: the connection is closed")
            self.transport.write(raw_answer(answer))
        self.transport.close()

    @property
    def _halfway(self) -> bool:
        """Whether a request has begun and is not complete yet."""
        state = self.conn.their_state
        return state is h11.SEND_BODY or (state is h11.IDLE and bool(self.conn.trailing_data[0]))

    def _update_timer(self) -> None:
        if not self._halfway:
            self._forget_request()
        elif self._overdue is None:
            self._await_request()

    def _await_request(self) -> None:
        self._received = 0
        self._overdue = self.loop.call_later(self.receive_timeout, self._time_is_up)

    def _forget_request(self) -> None:
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None

    def _time_is_up(self) -> None:
        # Allow more time to clients that have sent a lot, and while we are the ones not reading.
        more = 1.0 if self.flow.read_paused else self._received / SLOWEST
        if more >= 1.0:
            self._received = 0
            self._overdue = self.loop.call_later(more, self._time_is_up)
            return
        self._overdue = None
        answered = self.conn.their_state is h11.SEND_BODY and self.cycle.response_started
        if self._halfway and not answered:
            self.transport.write(_TOO_SLOW)
        self.transport.close()


_TOO_SLOW = raw_answer(TooSlow("the request did not arrive completely in time"))


def connection_class(settings: Settings) -> type[asyncio.Protocol]:
    """The connection class with the time limits of the settings."""
    time_limits = {
        "receive_timeout": settings.receive_timeout,
        "send_timeout": settings.send_timeout,
    }
    return type("Connection", (Connection,), time_limits)


def allow_many() -> None:
    """Allow as many connections as the system permits: often only 1,024 files may be open."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):  # keep the limit as it is
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
