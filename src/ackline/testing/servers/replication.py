"""Masters and replicas: who follows whom."""

from __future__ import annotations

from typing import TYPE_CHECKING

import redis

if TYPE_CHECKING:
    from ackline.testing.servers.redis import RedisServer


def follow(
    replica: RedisServer, master: RedisServer, *, through: tuple[str, int] | None = None
) -> None:
    """Make a server the replica of another, through a proxy if there is one in between.

    What it has itself is dropped.
    """
    host, port = through or master.address
    with replica.client() as client:
        client.config_set("masterauth", master.settings.password or "")
        client.replicaof(host, port)
    replica.replica_of = master


def promote(replica: RedisServer) -> None:
    """Make a replica a master of its own."""
    with replica.client() as client:
        client.replicaof("NO", "ONE")
    replica.replica_of = None


def wait_until_synced(replica: RedisServer) -> None:
    """Wait until a replica has its master's data, and the master counts on it."""
    if replica.replica_of is None:
        raise ValueError("this server is no replica")
    with replica.client() as mine, replica.replica_of.client() as masters:
        replica.wait_for("its master's data", lambda: _link_is_up(mine))
        replica.wait_for("its master's trust", lambda: _is_online(masters, replica.port))


def _link_is_up(replica: redis.Redis) -> bool:
    return bool(replica.info("replication").get("master_link_status") == "up")


def _is_online(master: redis.Redis, port: int) -> bool:
    known = master.info("replication").values()
    replicas = [each for each in known if isinstance(each, dict)]
    return any(each["port"] == port and each["state"] == "online" for each in replicas)
