"""A server program as a child process that ends with this one."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

STOP_TIMEOUT = 10.0
"""Seconds for a server to stop gracefully."""

# Reads until the pipe is closed, which happens when the process at its other end exits.
WATCHDOG = 'read _; kill -9 "$0"'


class ServerProcess:
    """One run of a server, from its start to its end; what it prints goes to the log."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        with log.open("ab") as output:
            # In sessions of their own, so that Ctrl-C reaches only the tests.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._watchdog = subprocess.Popen(
            ["/bin/sh", "-c", WATCHDOG, str(self.pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def send(self, number: signal.Signals) -> None:
        """Send a signal if it is running."""
        if self.alive:
            self._process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL, and wait for its end."""
        self._end_watchdog()
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Stop it; kill it if it does not stop."""
        self.send(signal.SIGCONT)
        self.send(signal.SIGTERM)
        try:
            self._process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            pass
        finally:
            self.kill()

    def _end_watchdog(self) -> None:
        self._watchdog.kill()
        self._watchdog.wait()
        if self._watchdog.stdin is not None:
            self._watchdog.stdin.close()
