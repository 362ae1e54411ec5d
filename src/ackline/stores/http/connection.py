"""Connections to a service, kept open between calls; no request is ever resent."""

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
"""The most idle connections kept; concurrent calls open as many as they need."""

PATH = "/v1/store/"


class Response(NamedTuple):
    """A response of the service."""

    body: bytes
    continue_after: str | None
    """The cursor after which to continue, if the service ran out of time."""


class ConnectionPool:
    """The connections of one store; each call uses its own, so threads share none."""

    def __init__(self, address: Address, token: str | None) -> None:
        self.address = address
        self.where = address.location
        self._headers = {"Content-Type": MSGPACK, "Accept": MSGPACK, **_authorization(token)}
        if token and not address.private:
            raise ConfigError(
                f"a token for {self.where} could be read in transit: use https://, or add "
                "?plaintext=yes if you trust the network"
            )
        self._tls: ssl.SSLContext | None = None
        # A deque needs no lock, which a fork could leave held.
        self._idle: deque[http.client.HTTPConnection] = deque(maxlen=MAX_IDLE_CONNECTIONS)
        self._pid = 0
        self._opened = False

    def open(self) -> None:
        """Prepare to connect; nothing is sent yet."""
        if self.address.tls and self._tls is None:
            try:
                self._tls = ssl.create_default_context(cafile=self.address.ca)
            except OSError as error:
                raise ConfigError(f"cannot read {self.address.ca}: {error}") from None
        self._opened = True

    def close(self) -> None:
        """Close the idle connections; others are closed when their call ends."""
        self._opened = False
        idle, self._idle = self._idle, deque(maxlen=MAX_IDLE_CONNECTIONS)
        for connection in idle:
            connection.close()

    def post(self, verb: str, body: bytes, tenant: str | None = None) -> Response:
        """Send a request once and return the response; failures raise Ackline's errors."""
        connection = self._acquire()
        try:
            connection.request("POST", self.path_of(verb), body, self.headers(tenant))
            response = connection.getresponse()
            if not response.chunked and response.length is None:
                # The response ends with the connection, so it could be cut off unnoticed.
                raise http.client.IncompleteRead(b"")
            content = response.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise connection_error(self.where, error) from error
        except BaseException:
            # The rest of this response would be read as the response to the next request.
            connection.close()
            raise
        if response.will_close or not self._opened:
            connection.close()
        else:
            self._idle.append(connection)
        if response.status != 200:
            raise self.error_of(response.status, content)
        return Response(content, response.headers.get(CONTINUE_AFTER_HEADER))

    def connect(self, timeout: float) -> http.client.HTTPConnection:
        """A new connection for the caller; it connects at its first request."""
        self._require_open()
        host, port = self.address.host, self.address.port
        if self._tls is not None:
            return http.client.HTTPSConnection(host, port, timeout=timeout, context=self._tls)
        return http.client.HTTPConnection(host, port, timeout=timeout)

    def path_of(self, verb: str) -> str:
        """The path for requests of a verb."""
        return f"{self.address.base}{PATH}{verb}"

    def headers(self, tenant: str | None) -> Mapping[str, str]:
        """The headers of a request."""
        if tenant is None:
            return self._headers
        return {**self._headers, TENANT_HEADER: quote(tenant, safe="")}

    def error_of(self, status: int, body: bytes) -> AcklineError:
        """The error for a response."""
        return error_of(self.where, status, body)

    def _acquire(self) -> http.client.HTTPConnection:
        self._require_open()
        if self._pid != os.getpid():
            # After a fork, open connections belong to the parent.
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
    """Whether nothing came while it was idle; anything means that the server has closed it."""
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return not poll.poll(0)


def _authorization(token: str | None) -> dict[str, str]:
    if not token:
        return {}
    if any(not 32 < ord(char) < 127 for char in token):
        # The message does not show the token.
        raise ConfigError("the token has a space or a character that is not allowed in a token")
    return {"Authorization": f"Bearer {token}"}
