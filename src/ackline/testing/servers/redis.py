"""A private Redis or Valkey server."""

from __future__ import annotations

import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from ackline.testing.servers.binary import redis_program
from ackline.testing.servers.errors import ServerNotStarted, ServerTimeout, tail
from ackline.testing.servers.ports import HOST, free_port
from ackline.testing.servers.process import ServerProcess
from ackline.testing.servers.replication import follow
from ackline.testing.servers.settings import Persistence, RedisSettings, as_arguments

PATIENCE = 20.0
"""Seconds for anything that should take less than one."""

TRIES = 5
"""How often a start is tried whose port is taken."""

TAKEN = "Address already in use"


class RedisServer:
    """Starts in a tenth of a second, answers on loopback only, and never outlives this process.

    It listens on a free port, or on a Unix socket. Its data and its log are in `folder`: one of
    its own that goes with it, or yours.

    >>> with RedisServer(persistence="always") as server:  # doctest: +SKIP
    ...     server.kill()
    ...     server.restart()
    """

    def __init__(
        self,
        *,
        persistence: Persistence = "none",
        maxmemory: int | None = None,
        replica_of: RedisServer | None = None,
        password: str | None = None,
        unix_socket: bool = False,
        folder: Path | None = None,
        **others: str,
    ) -> None:
        self.settings = RedisSettings(
            persistence=persistence,
            maxmemory=maxmemory,
            password=password,
            others={name.replace("_", "-"): value for name, value in others.items()},
        )
        self.replica_of = replica_of
        self.port = 0
        self._unix_socket = unix_socket
        self._given_folder = folder
        self._process: ServerProcess | None = None

    def start(self) -> Self:
        """Start it, and wait until it answers."""
        self.folder = self._given_folder or Path(tempfile.mkdtemp(prefix="ackline-redis-"))
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            self._bring_up(same_port=False)
        except BaseException:
            self.stop()
            raise
        return self

    def restart(self) -> None:
        """Start it again, after a `kill` or from running, with its data and at its old address."""
        self._running.stop()
        self._bring_up(same_port=True)

    def stop(self) -> None:
        """End it in good order; a folder of its own goes with it."""
        if self._process is not None:
            self._process.stop()
            self._process = None
        if self._given_folder is None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_error: object) -> None:
        self.stop()

    # --- where it is ---

    @property
    def url(self) -> str:
        """What to open a store with."""
        password = self.settings.password
        login = f":{quote(password, safe='')}@" if password else ""
        if self._unix_socket:
            return f"redis+unix://{login}{self.socket}"
        return f"redis://{login}{HOST}:{self.port}/0"

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        return HOST, self.port

    @property
    def socket(self) -> Path:
        """Its Unix socket, if it has one."""
        return self.folder / "redis.sock"

    @property
    def log(self) -> Path:
        """What it has to say, over all its restarts."""
        return self.folder / "redis.log"

    @property
    def pid(self) -> int:
        return self._running.pid

    def client(self, **options: Any) -> redis.Redis:
        """A plain client that never sends a command twice; close it, or use it in a `with`."""
        settings: dict[str, Any] = {
            "host": HOST,
            "port": self.port,
            "unix_socket_path": str(self.socket) if self._unix_socket else None,
            "password": self.settings.password,
            "retry": Retry(NoBackoff(), 0),
            "socket_timeout": PATIENCE,
            "decode_responses": True,
        }
        return redis.Redis(**{**settings, **options})

    # --- what can happen to it ---

    def kill(self) -> None:
        """SIGKILL: what is not in its file is gone."""
        self._running.kill()

    def pause(self) -> None:
        """SIGSTOP: it accepts connections and answers nothing."""
        self._running.send(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused server go on."""
        self._running.send(signal.SIGCONT)

    def wait_for(self, what: str, condition: Callable[[], object]) -> None:
        """Wait until a condition holds; if it never does, the error has the log."""
        until = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > until:
                message = f"waited {PATIENCE:g} s for {what}; the log:\n{tail(self.log)}"
                raise ServerTimeout(message)
            time.sleep(0.005)

    # --- starting ---

    @property
    def _running(self) -> ServerProcess:
        if self._process is None:
            raise RuntimeError("the server is not started: use it in a `with`, or call start()")
        return self._process

    def _bring_up(self, *, same_port: bool) -> None:
        for _ in range(TRIES):
            if not same_port and not self._unix_socket:
                self.port = free_port()
            self._process = ServerProcess(self.command(), self.log)
            self.wait_for("its start", lambda: self._answers() or not self._running.alive)
            if self._running.alive:
                return self._come_up()
            self._running.kill()
            if TAKEN not in tail(self.log):
                break
        raise ServerNotStarted("the server has ended by itself", self.log)

    def command(self) -> list[str]:
        """The command line that starts it."""
        socket = self.socket if self._unix_socket else None
        settings = self.settings.at(self.folder, self.port, socket)
        return [str(redis_program()), *as_arguments(settings)]

    def _come_up(self) -> None:
        # Told so by a command, it connects at once; by its settings, after a second.
        if self.replica_of is not None:
            follow(self, self.replica_of)

    def _answers(self) -> bool:
        try:
            with self.client() as client:
                client.ping()
                # Somebody else's server may have been quicker to take the port.
                return bool(client.info("server")["process_id"] == self.pid)
        except (redis.ConnectionError, redis.TimeoutError):
            return False
