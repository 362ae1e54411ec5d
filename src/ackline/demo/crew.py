"""The demo's workers: the real command, in processes of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

from ackline.demo.story import QUEUES

PROCESSES = 2
GRACE = 1.0
"""Seconds that running jobs have at the end."""

PATIENCE = 6.0
"""Seconds that the workers have to stop before they are killed."""


class Crew:
    """`ackline worker … --processes 2`, in a session of its own, so that Ctrl-C is ours alone.

    It ends with us, whatever happens: its standard input is a pipe that closes when we die.
    """

    def __init__(self, store: str, log: Path) -> None:
        self.command = [
            *(sys.executable, "-m", "ackline", "worker"),
            *(f"ackline.demo.handlers:{name}" for name in QUEUES),
            *("--processes", str(PROCESSES), "--concurrency", "8"),
            *("--grace", str(GRACE), "--with-parent"),
        ]
        self._log = log
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env={**os.environ, "ACKLINE_STORE": store},
                start_new_session=True,
            )

    @property
    def alive(self) -> bool:
        """Whether the supervisor still runs."""
        return self.process.poll() is None

    def last_words(self) -> str:
        """The end of its log."""
        return self._log.read_text(errors="replace")[-600:].strip()

    def stop(self) -> None:
        """Drain, then end; in the worst case by force."""
        try:
            self.process.terminate()
            self.process.wait(PATIENCE)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            self.process.kill()
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            if self.process.stdin is not None:
                self.process.stdin.close()
            self.process.wait()
