"""A supervised process, from both ends of the line between it and its supervisor.

The line is the child's standard input. When it closes, the supervisor is gone. The child writes a
sign of life to it every second, which needs no store, only a process that does not hang.
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
"""Seconds between two signs of life."""

SIGNAL_NAMES = {known.value: known.name for known in signal.Signals}


class ChildProcess:
    """One worker process, as its supervisor sees it."""

    def __init__(
        self,
        id: str,
        command: Sequence[str],
        pass_fds: Sequence[int] = (),
        begun: StartedJobs | None = None,
    ) -> None:
        self.id = id
        self.started_jobs = begun
        self.started = time.monotonic()
        self._socket, theirs = socket.socketpair()
        self._socket.setblocking(False)
        with theirs:
            self.process = subprocess.Popen(
                command,
                stdin=theirs.fileno(),
                pass_fds=(*pass_fds, begun.file) if begun else tuple(pass_fds),
                env=os.environ | begun.environment if begun else None,
                # A Ctrl-C at the terminal is for us: we pass it on, once.
                process_group=0,
            )
        self._pings = False
        self._missed = 0
        self._why_killed = ""

    def send_signal(self, number: int) -> None:
        """Pass a signal on."""
        if self.process.poll() is None:
            self.process.send_signal(number)

    def kill(self, why: str) -> bool:
        """End it by force; False if it has ended, or was killed before."""
        if self._why_killed or self.process.poll() is not None:
            return False
        self._why_killed = why
        self.process.kill()
        return True

    def missed_pings(self) -> int:
        """How many looks in a row found no sign of life; 0 for a process that never gave any."""
        try:
            signs = self._socket.recv(4096)
        except BlockingIOError:
            self._missed += self._pings
            return self._missed
        except ConnectionError:
            signs = b""
        # Empty means that the line is closed: by closing standard input, or because it is ending.
        self._pings = bool(signs)
        self._missed = 0
        return 0

    def close(self) -> None:
        """Close the line, after the process has ended."""
        self._socket.close()
        if self.started_jobs is not None:
            self.started_jobs.close()

    @property
    def exit_reason(self) -> str:
        """How it ended, in words."""
        code = self.process.returncode
        if self._why_killed and code == -signal.SIGKILL:
            return f"{self._why_killed} and was killed"
        if code < 0:
            # Real-time signals have no names.
            return f"killed by {SIGNAL_NAMES.get(-code, f'signal {-code}')}"
        return f"exited with status {code}"


def stop_with_parent(stop: Callable[[], None]) -> None:
    """Give signs of life to the process that started this one; call `stop` when it is gone."""

    def wait_for_end() -> None:
        # The line is reset if the parent ended without having read all of our signs.
        with contextlib.suppress(ConnectionResetError):
            sys.stdin.read()
        stop()

    number = sys.stdin.fileno()
    if stat.S_ISSOCK(os.fstat(number).st_mode):
        # A copy of the line: if someone closes standard input, its number may become another file.
        line = socket.socket(fileno=os.dup(number))
        threading.Thread(target=_send_pings, args=[line], name="ackline signs", daemon=True).start()
    threading.Thread(target=wait_for_end, name="ackline parent", daemon=True).start()


def _send_pings(line: socket.socket) -> None:
    # The thread that reads notices if the other end is gone.
    with line, contextlib.suppress(OSError):
        while line.send(b"."):
            time.sleep(PING_INTERVAL)
