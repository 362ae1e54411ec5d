"""The settings and durability of a server; a store refuses to open if jobs are not safe there."""

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
    "none": "none: accepted jobs are lost when the server stops, except those in a snapshot; "
    "set appendonly yes to keep them",
    # While a sync is in progress, the server delays even the next write, for up to two seconds.
    "everysec": "everysec: a server crash or power loss may lose the last two seconds",
    "always": "always: an accepted job survives a server crash and power loss",
}


class ServerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Settings and state of a server."""

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
        """The version as numbers, for comparison."""
        match = re.match(r"(\d+)\.(\d+)", self.version)
        return (int(match[1]), int(match[2])) if match else (0, 0)

    def effective_durability(self, address: Address) -> Durability:
        """What a change survives once it has returned; with `fsync=yes`, it waits for the disk."""
        return "always" if address.fsync and self.durability != "none" else self.durability

    def durability_text(self, address: Address) -> str:
        """What a job survives once its enqueue has returned, as text."""
        text = _DURABILITY_TEXT[self.effective_durability(address)]
        if not self.fsync_known:
            text += " (assumed: the server does not say how often it syncs)"
        if address.replicas:
            text += f"; it is also on {address.replicas} replicas"
        return text


def read_facts(connection: Connection) -> list[ServerFacts]:
    """Read the facts of the server, or of each primary of a cluster."""
    client = connection.client
    with connection.translate_errors:
        if not connection.clustered:
            return [_facts_of(client, connection.where)]
        return [
            _facts_of(client, f"redis at {node.name}", target_nodes=node)
            for node in client.get_primaries()
        ]


def combine_facts(nodes: Sequence[ServerFacts]) -> ServerFacts:
    """The facts of all nodes as one: sums of their memory, and the weakest durability."""
    weakest = min(nodes, key=lambda facts: DURABILITIES.index(facts.durability))
    limits = [facts.maxmemory for facts in nodes]
    return msgspec.structs.replace(
        weakest,
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
        # Only to check that this user may publish: otherwise workers would never be woken.
        client.publish(names.channel(QueueKey("default", ""), "changes"), "")
        schema = client.get(names.schema)
        if schema is None and client.type(names.registry) == b"none":
            return
        # Another process may have opened the store in between.
        schema = schema or client.get(names.schema)
    if schema is None or not schema.isdigit():
        raise StoreMismatch(
            f"{connection.where}: another program uses the key prefix {names.prefix!r}; "
            "choose another one with ?prefix=…"
        )
    if int(schema) > SCHEMA:
        raise StoreMismatch(
            f"{connection.where} was used by a newer version of Ackline (schema {int(schema)}; "
            f"this version knows {SCHEMA}): upgrade this one"
        )


# --- whether jobs are safe ---

MIN_VERSIONS = {"redis": (6, 2), "valkey": (7, 2)}

WAITAOF_SINCE = (7, 2)


def require_safe(facts: ServerFacts, address: Address) -> None:
    """Refuse a server that would lose jobs, or that cannot run the scripts."""
    server = f"{facts.where} is {facts.product} {facts.version}"
    if facts.number < MIN_VERSIONS[facts.product]:
        minimum = ".".join(map(str, MIN_VERSIONS[facts.product]))
        raise StoreError(f"{server}: version {minimum} or newer is required")
    if address.fsync and facts.number < WAITAOF_SINCE:
        raise ConfigError(f"{server}: fsync=yes requires 7.2 or newer (WAITAOF)")
    if facts.clustered and address.mode != "cluster":
        raise ConfigError(f"{facts.where} is a node of a cluster: use redis+cluster://…")
    for issue in _data_loss_risks(facts, address):
        raise ConfigError(f"{issue.message}: {issue.advice}")


def health_issues(
    nodes: Sequence[ServerFacts], address: Address, when_opened: Durability
) -> tuple[HealthIssue, ...]:
    """What is wrong with the servers, or worse than when the store was opened."""
    issues = [issue for facts in nodes for issue in _issues_of(facts, address)]
    now = combine_facts(nodes).effective_durability(address)
    if _is_less(now, when_opened) and not any(issue.code == "durability" for issue in issues):
        message = f"its durability is {now}, but was {when_opened} when the store was opened"
        advice = "restore appendonly and appendfsync, or reopen the store if this is intended"
        issues.append(HealthIssue("durability", message, advice))
    return tuple(issues)


def _issues_of(facts: ServerFacts, address: Address) -> Iterator[HealthIssue]:
    if facts.role in ("slave", "replica"):
        yield HealthIssue("store", "it is a replica: nothing can be enqueued", "use its primary")
    yield from _data_loss_risks(facts, address)


def _data_loss_risks(facts: ServerFacts, address: Address) -> Iterator[HealthIssue]:
    """Settings that can lose jobs; they may change while the server is running."""
    if facts.policy != "noeviction":
        yield HealthIssue(
            "eviction",
            f"{facts.where} has maxmemory-policy {facts.policy}, which evicts jobs when memory is "
            "full",
            "CONFIG SET maxmemory-policy noeviction",
        )
    actual, required = facts.effective_durability(address), address.durability
    if address.fsync and actual == "none":
        message = f"{facts.where} has no append-only file to sync"
        yield HealthIssue("durability", message, "set appendonly yes")
    elif required and _is_less(actual, required):
        yield HealthIssue(
            "durability",
            f"{facts.where} has durability {actual}, but the URL requires {required}",
            f"set appendonly yes and appendfsync {required}, or require less",
        )


def _is_less(one: Durability, other: Durability) -> bool:
    return DURABILITIES.index(one) < DURABILITIES.index(other)
