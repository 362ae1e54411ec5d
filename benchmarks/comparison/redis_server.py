"""A Redis or Valkey server for the comparison."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal, Self

from comparison.server import Figures
from private_servers import RedisServer

Durability = Literal["none", "everysec", "always"]

DURABILITY: dict[Durability, str] = {
    "none": "no persistence: a crash of the server takes everything",
    "everysec": "append-only file, synced every second: a power cut may take the last two seconds",
    "always": "append-only file, synced before each answer",
}


class RedisBenchmarkServer:
    """A private Redis server."""

    columns: ClassVar = {
        "bulk_server_us": "server µs, bulk enqueue",
        "drain_server_us": "server µs, drain",
        "drain_worker_us": "worker µs, drain",
        "bytes": "bytes while waiting",
    }

    def __init__(self, durability: Durability) -> None:
        self.durability = DURABILITY[durability]
        # A rewrite of the file in the middle of a measure would distort that one alone.
        self._server = RedisServer(persistence=durability, auto_aof_rewrite_percentage="0")

    def __enter__(self) -> Self:
        self._server.start()
        self._client = self._server.client()
        return self

    def __exit__(self, *_error: object) -> None:
        self._client.close()
        self._server.stop()

    @property
    def url(self) -> str:
        return self._server.url

    @property
    def name(self) -> str:
        info = self._client.info("server")
        name, version = info.get("server_name", "redis"), info["redis_version"]
        return f"{name.capitalize()} {info.get(f'{name}_version', version)}"

    def empty(self) -> None:
        self._client.execute_command("FLUSHALL", "SYNC")  # type: ignore[no-untyped-call]

    def usage(self) -> Figures:
        self._server.wait_for("the others to go", self._is_alone)
        cpu, memory = self._client.info("cpu"), self._client.info("memory")
        return {
            "cpu": cpu["used_cpu_user"] + cpu["used_cpu_sys"],
            "memory": memory["used_memory"],
        }

    def _is_alone(self) -> bool:
        return bool(self._client.info("clients")["connected_clients"] == 1)

    def costs(self, measure: str, used: Figures, jobs: int) -> Iterator[Figures]:
        yield {f"{measure}_server_us": used["cpu"] / jobs * 1e6}
        if measure == "bulk":
            yield {"bytes": used["memory"] / jobs}
