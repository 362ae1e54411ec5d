"""The demo's processes: workers, the service, and Spark; each is the real thing."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ackline.demo.story import QUEUES

PROCESSES = 2
GRACE = 1.0
"""Seconds that running jobs have at the end."""

PATIENCE = 6.0
"""Seconds that a process has to stop before it is killed."""


class Member:
    """A process in a session of its own, so that Ctrl-C reaches only the demo itself.

    It never outlives the demo: its standard input is a pipe that closes when the demo ends.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        log: Path,
        *,
        environment: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
    ) -> None:
        self._log = log
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                arguments,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env={**os.environ, **(environment or {})},
                pass_fds=pass_fds,
                start_new_session=True,
            )

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self.process.poll() is None

    def last_words(self) -> str:
        """The end of its log."""
        return self._log.read_text(errors="replace")[-600:].strip()

    def ask_to_stop(self) -> None:
        """Ask it to end by itself."""
        self.process.terminate()

    def stop(self) -> None:
        """Wait for its end; then kill what is left of it and of the processes it started."""
        try:
            self.process.wait(PATIENCE)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            self.process.kill()
        finally:
            self.kill()

    def kill(self) -> None:
        """Kill it now, with all processes it started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.process.wait()


def start_workers(store: str, log: Path) -> Member:
    """`ackline worker … --processes 2`."""
    arguments = [
        *(sys.executable, "-m", "ackline", "worker"),
        *(f"ackline.demo.handlers:{name.replace('/', '_')}" for name in QUEUES),
        *("--processes", str(PROCESSES), "--concurrency", "6"),
        *("--grace", str(GRACE), "--with-parent"),
    ]
    return Member(arguments, log, environment={"ACKLINE_STORE": store})


def start_service(store: str, lake: Path, listener: int, log: Path) -> Member:
    """`ackline serve`, on a socket that is bound already."""
    arguments = [
        *(sys.executable, "-m", "ackline", "serve", "--store", store, "--lake", str(lake)),
        *("--socket", str(listener), "--id", "demo", "--grace", str(GRACE)),
    ]
    return Member(arguments, log, pass_fds=[listener])


def start_analyst(store: str, lake: Path, packages: Path | None, log: Path) -> Member:
    """Spark; its packages may be in a folder of their own."""
    arguments = [sys.executable, "-m", "ackline.demo.analyst", store, str(lake)]
    environment = {}
    if packages is not None:
        paths = [str(packages), os.environ.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    return Member(arguments, log, environment=environment)
