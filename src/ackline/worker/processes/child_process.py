"""A supervised worker process, on both sides of the socket between it and its supervisor.

The socket is the child's standard input. When it closes, the supervisor is gone. The child writes
a ping to it every second, which needs no store, only a process that does not hang.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence

from ackline.worker.processes.started_jobs import StartedJobs

PING_INTERVAL = 1.0
"""Seconds between two pings."""

SIGNAL_NAMES = {known.value: known.name for known in signal.Signals}


class ChildProcess:
    """One worker process, as its supervisor sees it."""

    def __init__(
        self,
        id: str,
        command: Sequence[str],
        pass_fds: Sequence[int] = (),
        started_jobs: StartedJobs | None = None,
    ) -> None:
        self.id = id
        self.started_jobs = started_jobs
        self.started = time.monotonic()
        self._socket, child_end = socket.socketpair()
        self._socket.setblocking(False)
        with child_end:
            self.process = subprocess.Popen(
                command,
                stdin=child_end.fileno(),
                pass_fds=(*pass_fds, started_jobs.file) if started_jobs else tuple(pass_fds),
                env=os.environ | started_jobs.environment if started_jobs else None,
                # Ctrl-C at the terminal must reach the supervisor only, which passes it on once.
                process_group=0,
            )
        self._pings = False
        self._missed = 0
        self._kill_reason = ""

    def send_signal(self, number: int) -> None:
        """Send a signal if the process is running."""
        if self.process.poll() is None:
            self.process.send_signal(number)

    def kill(self, reason: str) -> bool:
        """Kill the process; False if it has exited, or was killed before."""
        if self._kill_reason or self.process.poll() is not None:
            return False
        self._kill_reason = reason
        self.process.kill()
        return True

    def missed_pings(self) -> int:
        """How many checks in a row found no ping; 0 for a process that never sent any."""
        try:
            pings = self._socket.recv(4096)
        except BlockingIOError:
            self._missed += self._pings
            return self._missed
        except ConnectionError:
            pings = b""
        # Empty if the socket was closed: the child closed its standard input, or is exiting.
        self._pings = bool(pings)
        self._missed = 0
        return 0

    def close(self) -> None:
        """Release its resources after the process has exited."""
        self._socket.close()
        if self.started_jobs is not None:
            self.started_jobs.close()

    @property
    def has_worked(self) -> bool:
        """Whether it has got as far as to run jobs."""
        return self.started_jobs is not None and self.started_jobs.in_use

    @property
    def exit_reason(self) -> str:
        """How it ended, in words."""
        code = self.process.returncode
        if self._kill_reason and code == -signal.SIGKILL:
            return f"{self._kill_reason} and was killed"
        if code < 0:
            # Real-time signals have no names.
            return f"killed by {SIGNAL_NAMES.get(-code, f'signal {-code}')}"
        return f"exited with status {code}"


def stop_with_parent(stop: Callable[[], None]) -> None:
    """Send pings to the process that started this one; call `stop` when it is gone."""

    def wait_for_end() -> None:
        # The socket is reset if the parent exited without having read all pings.
        with contextlib.suppress(ConnectionResetError):
            sys.stdin.read()
        stop()

    number = sys.stdin.fileno()
    if stat.S_ISSOCK(os.fstat(number).st_mode):
        # A duplicate: if someone closes standard input, its number may become another file.
        parent = socket.socket(fileno=os.dup(number))
        threading.Thread(
            target=_send_pings, args=[parent], name="ackline pings", daemon=True
        ).start()
    threading.Thread(target=wait_for_end, name="ackline parent", daemon=True).start()


def _send_pings(parent: socket.socket) -> None:
    # The thread that reads notices if the other end is gone.
    with parent, contextlib.suppress(OSError):
        while parent.send(b"."):
            time.sleep(PING_INTERVAL)
