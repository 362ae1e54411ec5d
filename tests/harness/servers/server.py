"""Private servers, one or several that belong together: folder, port, process, log."""

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
"""Seconds for anything that should take about one."""

TRIES = 5
"""How often to try to start if the port is taken."""

TAKEN = "Address already in use"


class PrivateServer(ABC):
    """Answers on loopback only, and never outlives this process.

    Its data and its log are in `folder`: one of its own that is deleted at the end, or yours.
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
        """Start it again, after its end or from running, with its data and at its old address."""
        self._end()
        self._start_process(same_port=True)

    def stop(self) -> None:
        """Stop it gracefully; a folder of its own is deleted."""
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

    # --- what can happen to it ---

    def pause(self) -> None:
        """SIGSTOP: connections are made, and nothing is answered."""
        self._running.send(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused server go on."""
        self._running.send(signal.SIGCONT)

    def wait_for(self, goal: str, condition: Callable[[], object]) -> None:
        """Wait until a condition holds; if it never does, the error has the log."""
        until = time.monotonic() + START_TIMEOUT
        while not condition():
            if time.monotonic() > until:
                message = f"waited {START_TIMEOUT:g} s for {goal}; the log:\n{tail(self.log)}"
                raise ServerTimeout(message)
            time.sleep(0.005)

    # --- what differs ---

    @abstractmethod
    def command(self) -> list[str]:
        """The command line that starts it."""

    @abstractmethod
    def _answers(self) -> bool:
        """Whether it takes calls."""

    def _prepare(self) -> None:
        """Make the folder, and what must be in it before the first start."""
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
        for _ in range(TRIES):
            if not same_port:
                self._take_port()
            self._process = ServerProcess(self.command(), self.log)
            self.wait_for("its start", lambda: self._answers() or not self._running.alive)
            if self._running.alive:
                return
            self._running.kill()
            if TAKEN not in tail(self.log):
                break
        raise ServerNotStarted("the server has ended by itself", self.log)


class ServerGroup(ABC):
    """Starts all of them, or none; ends them in reverse."""

    def __init__(self) -> None:
        self._started = contextlib.ExitStack()

    def start(self) -> Self:
        """Start them, and wait until they work together."""
        with contextlib.ExitStack() as stack:
            self._start(stack)
            self._started = stack.pop_all()
        return self

    @abstractmethod
    def _start(self, stack: contextlib.ExitStack) -> None:
        """Enter each server into the stack, and wait until they agree."""

    def stop(self) -> None:
        """End all of it."""
        self._started.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_error: object) -> None:
        self.stop()
