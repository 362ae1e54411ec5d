"""How a private Redis or Valkey server is set up."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from tests.harness.servers.ports import HOST

Persistence = Literal["none", "everysec", "always"]
"""What a killed server still has: nothing, all but the last moments, everything it answered."""


class RedisSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that a test may choose; `others` go to the server as they are."""

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
            # A test does not wait for delays that make sense in production.
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
