"""Supervises several processes of the service on one socket."""

from __future__ import annotations

import contextlib
import socket
from typing import Any

from ackline.worker.processes.supervisor import Supervisor

SOCKET_CLOSE_MARGIN = 0.2
"""Seconds for the processes to close their own side of the socket."""


class ServiceSupervisor(Supervisor):
    """Supervises processes that share a socket, and closes it for all of them at shutdown.

    They cannot close it themselves: while this process holds it, the kernel goes on accepting
    connections that nobody will answer.
    """

    def __init__(self, *args: Any, listener: socket.socket, drain: float, **options: Any) -> None:
        super().__init__(*args, pass_fds=[listener.fileno()], runs_handlers=False, **options)
        self._listener = listener
        self._drain = drain

    def _on_signal(self, number: int) -> None:
        super()._on_signal(number)
        self._call_later(self._drain + SOCKET_CLOSE_MARGIN, self._close_port)

    def _close_port(self) -> None:
        with contextlib.suppress(OSError):  # already done by the first signal
            self._listener.shutdown(socket.SHUT_RDWR)
