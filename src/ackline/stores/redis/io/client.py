"""Connections used directly: through the client library, each command would take twice as long."""

from __future__ import annotations

import contextlib
import os
import ssl
import time
from collections.abc import Sequence
from typing import Any

from hiredis import Reader, pack_command
from redis.exceptions import ConnectionError, InvalidResponse, ResponseError, TimeoutError

ALIVE_FOR = 0.02
"""Seconds for which a used connection is not checked: a check releases the GIL, and a busy worker
gets it back late."""

RECEIVE_BYTES = 65536
MAX_CHANNELS = 1000
"""The most channels in one command."""

_INCOMPLETE = object()


class DirectClient:
    """Sends commands over a pool of connections to one server; each call has one for itself."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self._idle: list[tuple[Any, float]] = []
        self._pid = os.getpid()

    def execute_command(self, *command: Any) -> Any:
        """Send a command, once, and return its answer."""
        connection = self._acquire()
        try:
            connection.send_packed_command([pack_command(command)], check_health=False)
            return connection.read_response()
        except ResponseError:
            raise
        except BaseException:
            # The answer may still arrive, and no other call must read it. The next call reconnects.
            connection.disconnect()
            raise
        finally:
            self._idle.append((connection, time.monotonic()))

    def close(self) -> None:
        """Close the idle connections."""
        with contextlib.suppress(IndexError):
            while True:
                connection, _ = self._idle.pop()
                connection.disconnect()

    def _acquire(self) -> Any:
        if self._pid != os.getpid():
            # In a forked child, these connections are the parent's.
            self._idle, self._pid = [], os.getpid()
        try:
            connection, used = self._idle.pop()
        except IndexError:
            return self._pool.make_connection()
        unchecked = time.monotonic() - used > ALIVE_FOR
        if unchecked and connection.is_connected and _is_unusable(connection):
            connection.disconnect()
        return connection


def _is_unusable(connection: Any) -> bool:
    """Whether the server has closed it or has sent something unexpected."""
    try:
        return bool(connection.can_read())
    except (ConnectionError, TimeoutError, OSError):
        return True


class Subscriber:
    """A dedicated connection that receives the messages of some channels."""

    def __init__(self, connection: Any, timeout: float) -> None:
        self._connection = connection
        self._timeout = timeout
        connection.connect()
        # A private name: the public API cannot wait for a message and something else together.
        self._socket = connection._sock
        self._socket.setblocking(False)
        self._reader = Reader(
            protocolError=InvalidResponse, replyError=ResponseError, notEnoughData=_INCOMPLETE
        )
        self._messages: list[tuple[bytes, bytes]] = []
        self._confirmed = 0

    def fileno(self) -> int:
        """The descriptor to wait for, unless `has_messages`."""
        return int(self._socket.fileno())

    @property
    def has_messages(self) -> bool:
        """Whether some have already arrived, together with the confirmation of a channel."""
        return bool(self._messages)

    def subscribe(self, channels: Sequence[str | bytes]) -> None:
        """Add channels; once it returns, none of their messages is missed."""
        self._change("SUBSCRIBE", channels)

    def unsubscribe(self, channels: Sequence[str | bytes]) -> None:
        """Remove channels."""
        self._change("UNSUBSCRIBE", channels)

    def ping(self) -> None:
        """Have the server send an answer."""
        self._send("PING")

    def read(self) -> list[tuple[bytes, bytes]]:
        """The messages that have arrived, each with its channel."""
        # Bytes left in the socket make it readable again; bytes that TLS has buffered do not.
        read_all = isinstance(self._socket, ssl.SSLSocket)
        try:
            while True:
                self._receive()
                if not read_all:
                    break
        except (BlockingIOError, ssl.SSLWantReadError):
            pass
        messages, self._messages = self._messages, []
        return messages

    def close(self) -> None:
        """Close the connection."""
        self._connection.disconnect()

    def _change(self, command: str, channels: Sequence[str | bytes]) -> None:
        for start in range(0, len(channels), MAX_CHANNELS):
            some = channels[start : start + MAX_CHANNELS]
            self._confirmed = 0
            self._send(command, *some)
            self._socket.settimeout(self._timeout)
            while self._confirmed < len(some):
                self._receive()
            self._socket.setblocking(False)

    def _send(self, *command: str | bytes) -> None:
        self._socket.settimeout(self._timeout)
        self._socket.sendall(pack_command(command))  # type: ignore[arg-type]
        self._socket.setblocking(False)

    def _receive(self) -> None:
        chunk = self._socket.recv(RECEIVE_BYTES)
        if not chunk:
            raise ConnectionError("the server closed the connection for notifications")
        self._reader.feed(chunk)
        while (answer := self._reader.gets()) is not _INCOMPLETE:
            if isinstance(answer, Exception):
                raise answer  # for example to a ping, from a server that cannot write
            if answer[0] == b"message":
                self._messages.append((answer[1], answer[2]))
            elif answer[0] in (b"subscribe", b"unsubscribe"):
                self._confirmed += 1
