"""What a server is, and whether jobs are safe there: if not, a store does not open."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from redis import exceptions

from ackline.core.errors import ConfigError, StoreError, StoreMismatch
from ackline.core.job import QueueKey
from ackline.stores.contract import HealthIssue
from ackline.stores.redis.io.address import DURABILITIES, Address, Durability
from ackline.stores.redis.io.connection import Connection
from ackline.stores.redis.key_names import SCHEMA, KeyNames

_DURABILITY_TEXT: dict[Durability, str] = {
    "none": "none: an answered job is lost when the server stops, but for what a snapshot has; "
    "appendonly yes would keep it",
    # While one sync is under way the server puts off even the next write, for up to two seconds.
    "everysec": "everysec: a crash of the server or the loss of power may lose the last "
    "two seconds",
    "always": "always: an answered job survives a crash and the loss of power",
}


class ServerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What was read from a server."""

    where: str
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

    @property
    def number(self) -> tuple[int, int]:
        """The version, to be compared."""
        match = re.match(r"(\d+)\.(\d+)", self.version)
        return (int(match[1]), int(match[2])) if match else (0, 0)

    def promise(self, address: Address) -> Durability:
        """What an answered change survives: with `fsync=yes`, the answer waits for the disk."""
        return "always" if address.fsync and self.durability != "none" else self.durability

    def durability_text(self, address: Address) -> str:
        """In words: what a job survives here once its enqueue has been answered."""
        words = _DURABILITY_TEXT[self.promise(address)]
        if not self.fsync_known:
            words += " (the server does not tell how often it syncs; taken to be everysec)"
        if address.replicas:
            words += f"; it is on {address.replicas} replicas, too"
        return words


def read_facts(connection: Connection) -> list[ServerFacts]:
    """Ask the server, or all primaries of a cluster: each has a part of the queues."""
    client = connection.client
    with connection.translate_errors:
        if not connection.clustered:
            return [_facts_of(client, connection.where)]
        return [
            _facts_of(client, f"redis at {node.name}", target_nodes=node)
            for node in client.get_primaries()
        ]


def weakest_of(nodes: Sequence[ServerFacts]) -> ServerFacts:
    """The facts of all nodes together: a promise counts for as much as the weakest node keeps."""
    worst = min(nodes, key=lambda facts: DURABILITIES.index(facts.durability))
    limits = [facts.maxmemory for facts in nodes]
    return msgspec.structs.replace(
        worst,
        fsync_known=all(facts.fsync_known for facts in nodes),
        replicas=min(facts.replicas for facts in nodes),
        used_memory=sum(facts.used_memory for facts in nodes),
        maxmemory=sum(limits) if all(limits) else 0,
    )


def _facts_of(client: Any, where: str, **node: Any) -> ServerFacts:
    info = dict(client.info(**node))
    aof = bool(info.get("aof_enabled"))
    fsync = _fsync(client, **node) if aof else None
    return ServerFacts(
        where=where,
        product="valkey" if "valkey_version" in info else "redis",
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


def _fsync(client: Any, **node: Any) -> str | None:
    try:
        answer = client.config_get("appendfsync", **node)
    except exceptions.ResponseError:
        # Hosted servers often hide their configuration.
        return None
    return str(answer["appendfsync"]) if answer else None


def require_own_prefix(connection: Connection, names: KeyNames) -> None:
    """Refuse the keys of another program, or of a newer Ackline."""
    with connection.translate_errors:
        client = connection.client
        # Only to check that this user may publish: if not, workers would never be woken.
        client.publish(names.channel(QueueKey("default", ""), "changes"), "")
        schema = client.get(names.schema)
        if schema is None and client.type(names.registry) == b"none":
            return
        # Another process may have opened the store in between.
        schema = schema or client.get(names.schema)
    if schema is None or not schema.isdigit():
        raise StoreMismatch(
            f"{connection.where}: another program has keys under the prefix {names.prefix!r}: "
            "choose another one with ?prefix=…"
        )
    if int(schema) > SCHEMA:
        raise StoreMismatch(
            f"{connection.where} was used by a newer Ackline (schema {int(schema)}, this one knows "
            f"{SCHEMA}): upgrade this one"
        )


# --- whether jobs are safe ---

MIN_VERSIONS = {"redis": (6, 2), "valkey": (7, 2)}

WAITAOF_SINCE = (7, 2)


def require_safe(facts: ServerFacts, address: Address) -> None:
    """Refuse a server that would lose jobs, or that cannot run the scripts."""
    server = f"{facts.where} is {facts.product} {facts.version}"
    if facts.number < MIN_VERSIONS[facts.product]:
        least = ".".join(map(str, MIN_VERSIONS[facts.product]))
        raise StoreError(f"{server}: it must be {least} or newer")
    if address.fsync and facts.number < WAITAOF_SINCE:
        raise ConfigError(f"{server}: fsync=yes needs 7.2 or newer (WAITAOF)")
    if facts.clustered and address.mode != "cluster":
        raise ConfigError(f"{facts.where} is a node of a cluster: its URL is redis+cluster://…")
    for danger in _data_loss_risks(facts, address):
        raise ConfigError(f"{danger.message}: {danger.advice}")


def health_issues(
    nodes: Sequence[ServerFacts], address: Address, opened_on: Durability
) -> tuple[HealthIssue, ...]:
    """What is not as it should be, or worse than when the store was opened."""
    troubles = [trouble for facts in nodes for trouble in _of_server(facts, address)]
    now = weakest_of(nodes).promise(address)
    if _is_less(now, opened_on) and not any(one.code == "durability" for one in troubles):
        says = f"its durability is {now}, and was {opened_on} when the store was opened"
        do = "set appendonly and appendfsync as they were, or open the store anew if it is meant so"
        troubles.append(HealthIssue("durability", says, do))
    return tuple(troubles)


def _of_server(facts: ServerFacts, address: Address) -> Iterator[HealthIssue]:
    if facts.role in ("slave", "replica"):
        yield HealthIssue("store", "it is a replica: nothing can be enqueued", "name its primary")
    yield from _data_loss_risks(facts, address)


def _data_loss_risks(facts: ServerFacts, address: Address) -> Iterator[HealthIssue]:
    """Settings by which jobs get lost; they may be changed while the server runs."""
    if facts.policy != "noeviction":
        yield HealthIssue(
            "eviction",
            f"{facts.where} has maxmemory-policy {facts.policy}, which throws jobs away when it "
            "is full",
            "CONFIG SET maxmemory-policy noeviction",
        )
    have, wanted = facts.promise(address), address.durability
    if address.fsync and have == "none":
        says = f"{facts.where} has no append-only file to sync"
        yield HealthIssue("durability", says, "set appendonly yes")
    elif wanted and _is_less(have, wanted):
        yield HealthIssue(
            "durability",
            f"{facts.where} has durability {have}, but {wanted} is asked for",
            f"set appendonly yes and appendfsync {wanted}, or ask for less",
        )


def _is_less(one: Durability, other: Durability) -> bool:
    return DURABILITIES.index(one) < DURABILITIES.index(other)
