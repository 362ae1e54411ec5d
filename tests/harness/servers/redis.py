"""A private Redis or Valkey server."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import msgspec
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.harness.servers.ports import HOST
from tests.harness.servers.redis_program import redis_program
from tests.harness.servers.redis_replication import follow
from tests.harness.servers.server import START_TIMEOUT, PrivateServer

Persistence = Literal["none", "everysec", "always"]
"""What a killed server keeps: nothing, all but the last seconds, or everything it answered."""


class RedisSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a server; `others` are passed on unchanged."""

    persistence: Persistence = "none"
    maxmemory: int | None = None
    password: str | None = None
    others: Mapping[str, str] = {}

    def at(self, folder: Path, port: int, socket: Path | None) -> dict[str, str]:
        """All settings of a server with this folder and this port or socket."""
        return {
            "dir": str(folder),
            "bind": HOST,
            "port": str(port),
            **({"unixsocket": str(socket), "unixsocketperm": "700"} if socket else {}),
            "save": "",
            # Without delays that make sense only in production.
            "shutdown-timeout": "0",
            "repl-diskless-sync": "no",
            "repl-diskless-load": "swapdb",
            **self._chosen(),
            **self.others,
        }

    def _chosen(self) -> dict[str, str]:
        pairs: dict[str, str] = {}
        if self.persistence != "none":
            pairs |= {"appendonly": "yes", "appendfsync": self.persistence}
        if self.maxmemory is not None:
            pairs |= {"maxmemory": str(self.maxmemory), "maxmemory-policy": "noeviction"}
        if self.password is not None:
            pairs["requirepass"] = self.password
        return pairs


def as_arguments(settings: Mapping[str, str]) -> list[str]:
    """Settings on a command line."""
    return [part for name, value in settings.items() for part in (f"--{name}", value)]


class RedisServer(PrivateServer):
    """Starts in a tenth of a second, listens on loopback only, and ends with this process.

    It listens on a free port, or on a Unix socket. Its data and its log are in `folder`, by
    default a temporary one.

    >>> with RedisServer(persistence="always") as server:  # doctest: +SKIP
    ...     server.kill()
    ...     server.restart()
    """

    name = "redis"

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
        super().__init__(folder)
        self.settings = RedisSettings(
            persistence=persistence,
            maxmemory=maxmemory,
            password=password,
            others={name.replace("_", "-"): value for name, value in others.items()},
        )
        self.replica_of = replica_of
        self._unix_socket = unix_socket

    # --- addresses ---

    @property
    def url(self) -> str:
        """The URL for a store."""
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

    def client(self, **options: Any) -> redis.Redis:
        """A plain client that never sends a command twice; close it, or use it in a `with`."""
        settings: dict[str, Any] = {
            "host": HOST,
            "port": self.port,
            "unix_socket_path": str(self.socket) if self._unix_socket else None,
            "password": self.settings.password,
            "retry": Retry(NoBackoff(), 0),
            "socket_timeout": START_TIMEOUT,
            "decode_responses": True,
        }
        return redis.Redis(**{**settings, **options})

    # --- faults ---

    def kill(self) -> None:
        """SIGKILL: data that is not in its file is gone."""
        self._running.kill()

    # --- starting ---

    def command(self) -> list[str]:
        """The command line that starts it."""
        socket = self.socket if self._unix_socket else None
        settings = self.settings.at(self.folder, self.port, socket)
        return [str(redis_program()), *as_arguments(settings)]

    def _take_port(self) -> None:
        if not self._unix_socket:
            super()._take_port()

    def _start_process(self, *, same_port: bool) -> None:
        super()._start_process(same_port=same_port)
        # By a command, it connects to its master at once; by a setting, after a second.
        if self.replica_of is not None:
            follow(self, self.replica_of)

    def _answers(self) -> bool:
        try:
            with self.client() as client:
                client.ping()
                # Another server may have taken the port first.
                return bool(client.info("server")["process_id"] == self.pid)
        except (redis.ConnectionError, redis.TimeoutError):
            return False
