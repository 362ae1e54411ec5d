"""Replication between Redis servers."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import redis

if TYPE_CHECKING:
    from tests.harness.servers.redis import RedisServer


def follow(
    replica: RedisServer, master: RedisServer, *, through: tuple[str, int] | None = None
) -> None:
    """Make a server the replica of another, through a proxy if its address is given.

    Its own data is dropped.
    """
    host, port = through or master.address
    with replica.client() as client:
        client.config_set("masterauth", master.settings.password or "")
        client.replicaof(host, port)
    replica.replica_of = master


def promote(replica: RedisServer) -> None:
    """Promote a replica to a master."""
    with replica.client() as client:
        client.replicaof("NO", "ONE")
    replica.replica_of = None


def wait_until_synced(replica: RedisServer) -> None:
    """Wait until a replica has its master's data, and the master sees it online."""
    master = replica.replica_of
    if master is None:
        raise ValueError("this server is no replica")
    replica.wait_for("its master's data", lambda: _link_is_up(replica))
    replica.wait_for("its master to see it online", lambda: _is_online(master, replica.port))


def wait_until_caught_up(replica: RedisServer, master: RedisServer) -> None:
    """Wait until a replica has everything that its master has now."""
    wanted = _replication(master)["master_repl_offset"]
    replica.wait_for(
        "all that its master has",
        lambda: _replication(replica).get("slave_repl_offset", 0) >= wanted,
    )


def _link_is_up(replica: RedisServer) -> bool:
    return _replication(replica).get("master_link_status") == "up"


def _is_online(master: RedisServer, port: int) -> bool:
    replicas = [each for each in _replication(master).values() if isinstance(each, dict)]
    return any(each["port"] == port and each["state"] == "online" for each in replicas)


def _replication(server: RedisServer) -> dict[str, Any]:
    # A sentinel disconnects the clients of a server whose role it changes.
    with contextlib.suppress(redis.ConnectionError), server.client() as client:
        return dict(client.info("replication"))
    return {}
