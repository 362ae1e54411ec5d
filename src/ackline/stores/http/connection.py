"""Connections to a service: kept open between calls, and no request is ever resent."""

from __future__ import annotations

import http.client
import os
import select
import ssl
from collections import deque
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote

from ackline.core.errors import AcklineError, ConfigError, StoreClosed
from ackline.stores.http.address import Address
from ackline.stores.http.errors import connection_error, error_of
from ackline.stores.wire import CONTINUE_AFTER_HEADER, MSGPACK, TENANT_HEADER

MAX_IDLE_CONNECTIONS = 32
"""The most connections kept for later calls; calls make as many as they need."""

PATH = "/v1/store/"


class Response(NamedTuple):
    """What a service answered."""

    body: bytes
    continue_after: str | None
    """The cursor after which to ask again, if the service had no time to look any further."""


class ConnectionPool:
    """All connections of one store; each call has one of its own, so threads share nothing."""

    def __init__(self, address: Address, token: str | None) -> None:
        self.address = address
        self.where = address.location
        self._headers = {"Content-Type": MSGPACK, "Accept": MSGPACK, **_authorization(token)}
        if token and not address.private:
            raise ConfigError(
                f"a token for {self.where} could be read on its way: use https://, or say "
                "?plaintext=yes where the network itself is trusted"
            )
        self._tls: ssl.SSLContext | None = None
        # A deque needs no lock, which a fork could leave held.
        self._idle: deque[http.client.HTTPConnection] = deque(maxlen=MAX_IDLE_CONNECTIONS)
        self._pid = 0
        self._opened = False

    def open(self) -> None:
        """Be ready to connect; nothing is sent yet."""
        if self.address.tls and self._tls is None:
            try:
                self._tls = ssl.create_default_context(cafile=self.address.ca)
            except OSError as error:
                raise ConfigError(f"{self.address.ca} cannot be read: {error}") from None
        self._opened = True

    def close(self) -> None:
        """Close the idle connections; the others are closed when their call ends."""
        self._opened = False
        idle, self._idle = self._idle, deque(maxlen=MAX_IDLE_CONNECTIONS)
        for connection in idle:
            connection.close()

    def post(self, verb: str, body: bytes, tenant: str | None = None) -> Response:
        """Send a verb, once, and return the answer; raises one of Ackline's errors on a failure."""
        connection = self._acquire()
        try:
            connection.request("POST", self.path_of(verb), body, self.headers(tenant))
            response = connection.getresponse()
            if not response.chunked and response.length is None:
                # Then the answer ends with the connection, and may be cut off unnoticed.
                raise http.client.IncompleteRead(b"")
            answer = response.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise connection_error(self.where, error) from error
        except BaseException:
            # The rest of this answer would be taken for the answer to the next call.
            connection.close()
            raise
        if response.will_close or not self._opened:
            connection.close()
        else:
            self._idle.append(connection)
        if response.status != 200:
            raise self.error_of(response.status, answer)
        return Response(answer, response.headers.get(CONTINUE_AFTER_HEADER))

    def connect(self, timeout: float) -> http.client.HTTPConnection:
        """A new connection for the caller alone; it connects at its first request."""
        self._require_open()
        host, port = self.address.host, self.address.port
        if self._tls is not None:
            return http.client.HTTPSConnection(host, port, timeout=timeout, context=self._tls)
        return http.client.HTTPConnection(host, port, timeout=timeout)

    def path_of(self, verb: str) -> str:
        """The path of a verb's requests."""
        return f"{self.address.base}{PATH}{verb}"

    def headers(self, tenant: str | None) -> Mapping[str, str]:
        """The headers of every request."""
        if tenant is None:
            return self._headers
        return {**self._headers, TENANT_HEADER: quote(tenant, safe="")}

    def error_of(self, status: int, body: bytes) -> AcklineError:
        """The error that an answer stands for."""
        return error_of(self.where, status, body)

    def _acquire(self) -> http.client.HTTPConnection:
        self._require_open()
        if self._pid != os.getpid():
            # After a fork, open connections are the parent's.
            self._pid, self._idle = os.getpid(), deque(maxlen=MAX_IDLE_CONNECTIONS)
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return self.connect(self.address.timeout)
            if _is_alive(connection):
                return connection
            connection.close()

    def _require_open(self) -> None:
        if not self._opened:
            raise StoreClosed(f"the store at {self.where} is closed: open() it")


def _is_alive(connection: http.client.HTTPConnection) -> bool:
    """Whether nothing came while it was idle; if something did, the server has hung up."""
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return not poll.poll(0)


def _authorization(token: str | None) -> dict[str, str]:
    if not token:
        return {}
    if any(not 32 < ord(char) < 127 for char in token):
        # The token is not shown: readers of the message must not learn most of it.
        raise ConfigError("the token has a space or a character that no token can have")
    return {"Authorization": f"Bearer {token}"}
