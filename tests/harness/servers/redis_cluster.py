"""A private Redis or Valkey cluster of three masters."""

from __future__ import annotations

import contextlib
from functools import partial

import redis

from tests.harness.servers.ports import HIGHEST, HOST, LOWEST
from tests.harness.servers.redis import Persistence, RedisServer
from tests.harness.servers.server import ServerGroup

SLOTS = 16_384
MASTERS = 3


class ClusterNode(RedisServer):
    """One master of a cluster."""

    def __init__(self, persistence: Persistence) -> None:
        super().__init__(
            persistence=persistence,
            cluster_enabled="yes",
            cluster_config_file="nodes.conf",
            cluster_node_timeout="2000",
        )

    def command(self) -> list[str]:
        """The command line that starts it."""
        return [*super().command(), "--cluster-port", str(self.bus)]

    @property
    def bus(self) -> int:
        """The port for messages between the masters."""
        # In the same range as the port, and a different one for each port.
        return LOWEST + HIGHEST - self.port


class RedisCluster(ServerGroup):
    """Three masters; the start takes a few seconds.

    >>> with RedisCluster() as cluster:  # doctest: +SKIP
    ...     queues = ackline.open(cluster.url)
    """

    def __init__(self, *, persistence: Persistence = "none") -> None:
        super().__init__()
        self.servers = [ClusterNode(persistence) for _ in range(MASTERS)]

    def _start(self, stack: contextlib.ExitStack) -> None:
        for server in self.servers:
            stack.enter_context(server)
        self._form()
        self._wait_until_agreed()

    @property
    def url(self) -> str:
        """The URL for a store."""
        return f"redis+cluster://{HOST}:{self.servers[0].port}"

    def _form(self) -> None:
        bounds = [SLOTS * number // MASTERS for number in range(MASTERS + 1)]
        for number, server in enumerate(self.servers):
            with server.client() as client:
                client.cluster("SET-CONFIG-EPOCH", number + 1)
                client.cluster("ADDSLOTSRANGE", bounds[number], bounds[number + 1] - 1)
        with self.servers[0].client() as client:
            for other in self.servers[1:]:
                client.cluster("MEET", HOST, other.port, other.bus)

    def _wait_until_agreed(self) -> None:
        for server in self.servers:
            with server.client() as client:
                server.wait_for("the cluster", partial(_is_complete, client))


def _is_complete(node: redis.Redis) -> bool:
    info = node.cluster("INFO")
    found = (info["cluster_state"], info["cluster_known_nodes"])
    return found == ("ok", str(MASTERS))
