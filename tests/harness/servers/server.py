"""What all private servers have: a folder, a port, a process and a log."""

from __future__ import annotations

import contextlib
import shutil
import signal
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, Self

from tests.harness.servers.errors import ServerNotStarted, ServerTimeout, tail
from tests.harness.servers.ports import free_port
from tests.harness.servers.process import ServerProcess

START_TIMEOUT = 30.0
"""Timeout for steps that normally take about a second."""

MAX_TRIES = 5
"""How often to try to start if the port is taken."""

PORT_IN_USE = "Address already in use"


class PrivateServer(ABC):
    """A server that listens on loopback only, and ends with this process.

    Its data and its log are in `folder`, by default a temporary one.
    """

    name: ClassVar[str]

    def __init__(self, folder: Path | None = None) -> None:
        self.port = 0
        self._given_folder = folder
        self._process: ServerProcess | None = None

    def start(self) -> Self:
        """Start it, and wait until it answers."""
        self.folder = self._given_folder or Path(tempfile.mkdtemp(prefix=f"ackline-{self.name}-"))
        try:
            self._prepare()
            self._start_process(same_port=False)
        except BaseException:
            self.stop()
            raise
        return self

    def restart(self) -> None:
        """Stop it if it is running, and start it again with its data and its address."""
        self._end()
        self._start_process(same_port=True)

    def stop(self) -> None:
        """Stop it gracefully; a temporary folder is deleted."""
        if self._process is not None:
            self._end()
            self._process = None
        if self._given_folder is None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_error: object) -> None:
        self.stop()

    @property
    def log(self) -> Path:
        """Its log, over all its restarts."""
        return self.folder / f"{self.name}.log"

    @property
    def pid(self) -> int:
        return self._running.pid

    # --- faults ---

    def pause(self) -> None:
        """SIGSTOP: it accepts connections, but does not answer."""
        self._running.send(signal.SIGSTOP)

    def resume(self) -> None:
        """Resume a paused server."""
        self._running.send(signal.SIGCONT)

    def wait_for(self, goal: str, condition: Callable[[], object]) -> None:
        """Wait until a condition holds; if it never does, the error has the log."""
        until = time.monotonic() + START_TIMEOUT
        while not condition():
            if time.monotonic() > until:
                message = f"waited {START_TIMEOUT:g} s for {goal}; the log:\n{tail(self.log)}"
                raise ServerTimeout(message)
            time.sleep(0.005)

    # --- what each server defines ---

    @abstractmethod
    def command(self) -> list[str]:
        """The command line that starts it."""

    @abstractmethod
    def _answers(self) -> bool:
        """Whether it answers."""

    def _prepare(self) -> None:
        """Create the folder, and what the first start needs."""
        self.folder.mkdir(parents=True, exist_ok=True)

    def _take_port(self) -> None:
        self.port = free_port()

    def _end(self) -> None:
        self._running.stop()

    # --- starting ---

    @property
    def _running(self) -> ServerProcess:
        if self._process is None:
            raise RuntimeError("the server is not started: use it in a `with`, or call start()")
        return self._process

    def _start_process(self, *, same_port: bool) -> None:
        for _ in range(MAX_TRIES):
            if not same_port:
                self._take_port()
            self._process = ServerProcess(self.command(), self.log)
            self.wait_for("its start", lambda: self._answers() or not self._running.alive)
            if self._running.alive:
                return
            self._running.kill()
            if PORT_IN_USE not in tail(self.log):
                break
        raise ServerNotStarted("the server has exited", self.log)


class ServerGroup(ABC):
    """Several servers: starts all of them or none, and stops them in reverse order."""

    def __init__(self) -> None:
        self._started = contextlib.ExitStack()

    def start(self) -> Self:
        """Start them, and wait until they are connected."""
        with contextlib.ExitStack() as stack:
            self._start(stack)
            self._started = stack.pop_all()
        return self

    @abstractmethod
    def _start(self, stack: contextlib.ExitStack) -> None:
        """Enter each server into the stack, and wait until they are connected."""

    def stop(self) -> None:
        """Stop all servers."""
        self._started.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_error: object) -> None:
        self.stop()
