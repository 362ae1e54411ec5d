"""The socket on which a proxy accepts clients."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections.abc import Callable

from tests.harness.servers.ports import HOST, free_port

MAX_TRIES = 20
"""How often to try to listen on a port."""


class ProxyListener:
    """Listens on a port, a free one unless it is given, until it is closed."""

    def __init__(self, let_in: Callable[[socket.socket], None], port: int = 0) -> None:
        self._on_connection = let_in
        self._listener = _listen(port)
        self.port: int = self._listener.getsockname()[1]
        self._inside, self._outside = socket.socketpair()
        self._thread = threading.Thread(target=self._accept, name="proxy door", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """From now on, connections are refused."""
        self._outside.close()
        self._thread.join()

    def _accept(self) -> None:
        with self._listener, self._inside:
            while True:
                ready, _, _ = select.select([self._listener, self._inside], [], [])
                if self._inside in ready:
                    return
                with contextlib.suppress(OSError):
                    self._on_connection(self._listener.accept()[0])


def _listen(port: int) -> socket.socket:
    for _ in range(MAX_TRIES):
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port or free_port()))
            listener.listen(128)
        except OSError:
            listener.close()
        else:
            return listener
    raise OSError(f"no port to listen on (asked for {port or 'any'})")
