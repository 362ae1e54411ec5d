"""What a server is, and whether jobs are safe on it."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from redis import exceptions

from ackline.errors import ConfigError, StoreError, StoreMismatch
from ackline.job import QueueKey
from ackline.stores.base import Trouble
from ackline.stores.redis.address import DURABILITIES, Address, Durability
from ackline.stores.redis.connection import Connection
from ackline.stores.redis.names import SCHEMA, Names

OLDEST = {"redis": (6, 2), "valkey": (7, 2)}

SYNC_SINCE = (7, 2)

_IN_WORDS: dict[Durability, str] = {
    "none": "none: an answered job is lost when the server stops, but for what a snapshot has; "
    "appendonly yes would keep it",
    # While one sync is under way the server puts off even the next write, for up to two seconds.
    "everysec": "everysec: a crash of the server or the loss of power may lose the last "
    "two seconds",
    "always": "always: an answered job survives a crash and the loss of power",
}


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What was read from a server."""

    product: str
    version: str
    role: str
    policy: str
    maxmemory: int
    durability: Durability
    fsync_known: bool
    replicas: int
    used_memory: int
    clustered: bool

    def in_words(self, address: Address) -> str:
        """When a job is safe here."""
        words = _IN_WORDS["always" if address.fsync else self.durability]
        if not self.fsync_known:
            words += " (the server does not tell how often it syncs; taken to be everysec)"
        if address.replicas:
            words += f"; it is on {address.replicas} replicas, too"
        return words

    def troubles(self) -> tuple[Trouble, ...]:
        """What is not as it should be."""
        if self.role in ("slave", "replica"):
            return (
                Trouble("store", "it is a replica: nothing can be enqueued", "name its primary"),
            )
        return ()


def read_facts(connection: Connection) -> Facts:
    """Ask the server."""
    with connection.translated():
        info = _info(connection)
        aof = bool(info.get("aof_enabled"))
        fsync = _fsync(connection) if aof else None
    product = "valkey" if "valkey_version" in info else "redis"
    return Facts(
        product=product,
        version=str(info.get("valkey_version") or info["redis_version"]),
        role=str(info.get("role", "")),
        policy=str(info.get("maxmemory_policy", "")),
        maxmemory=int(info.get("maxmemory", 0)),
        durability="none" if not aof else "always" if fsync == "always" else _weaker(fsync),
        fsync_known=not aof or fsync is not None,
        replicas=int(info.get("connected_slaves", 0)),
        used_memory=int(info.get("used_memory", 0)),
        clustered=bool(int(info.get("cluster_enabled", 0))),
    )


def _weaker(fsync: str | None) -> Durability:
    return "none" if fsync == "no" else "everysec"


def _info(connection: Connection) -> dict[str, Any]:
    client = connection.client
    if connection.clustered:
        return dict(client.info(target_nodes=client.get_random_primary_node()))
    return dict(client.info())


def _fsync(connection: Connection) -> str | None:
    client = connection.client
    try:
        if connection.clustered:
            answer = client.config_get("appendfsync", target_nodes=client.get_random_primary_node())
        else:
            answer = client.config_get("appendfsync")
    except exceptions.ResponseError:
        # Hosted servers often hide their configuration.
        return None
    return str(answer["appendfsync"]) if answer else None


def require_safe(facts: Facts, address: Address, where: str) -> None:
    """Refuse a server that would lose jobs, or that cannot run the scripts."""
    number = re.match(r"(\d+)\.(\d+)", facts.version)
    have = (int(number[1]), int(number[2])) if number else (0, 0)
    if have < OLDEST[facts.product]:
        least = ".".join(map(str, OLDEST[facts.product]))
        raise StoreError(f"{where} is {facts.product} {facts.version}: it must be {least} or newer")
    if facts.policy != "noeviction":
        raise ConfigError(
            f"{where} has maxmemory-policy {facts.policy}: it would throw jobs away when it is "
            "full. Set it to noeviction: CONFIG SET maxmemory-policy noeviction"
        )
    if address.fsync and have < SYNC_SINCE:
        raise ConfigError(
            f"{where} is {facts.product} {facts.version}: fsync=yes needs 7.2 or newer (WAITAOF)"
        )
    if address.fsync and facts.durability == "none":
        raise ConfigError(f"{where} has no append-only file to sync: set appendonly yes")
    if facts.clustered and address.mode != "cluster":
        raise ConfigError(f"{where} is a node of a cluster: its URL is redis+cluster://…")
    wanted = address.durability
    have_durability = "always" if address.fsync else facts.durability
    if wanted and DURABILITIES.index(have_durability) < DURABILITIES.index(wanted):
        raise ConfigError(
            f"{where} has durability {have_durability}, but {wanted} is asked for: "
            f"set appendonly yes and appendfsync {wanted}, or ask for less"
        )


def require_ours(connection: Connection, names: Names) -> None:
    """Refuse the keys of another program, or of a newer Ackline."""
    with connection.translated():
        client = connection.client
        # Only to see whether this user may: workers would never be woken.
        client.publish(names.channel(QueueKey("default", ""), "changes"), "")
        found = client.get(names.schema)
        if found is None and client.type(names.registry) == b"none":
            return
        # Another one may have opened it in between.
        found = found or client.get(names.schema)
    if found is None or not found.isdigit():
        raise StoreMismatch(
            f"{connection.where}: another program has keys under the prefix {names.prefix!r}: "
            "choose another one with ?prefix=…"
        )
    if int(found) > SCHEMA:
        raise StoreMismatch(
            f"{connection.where} was used by a newer Ackline (schema {int(found)}, this one knows "
            f"{SCHEMA}): upgrade this one"
        )
