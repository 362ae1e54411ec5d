"""Whether jobs are safe on a server: if not, a store does not open; if no longer, it reports it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ackline.errors import ConfigError, StoreError
from ackline.stores.base import Trouble
from ackline.stores.redis.address import DURABILITIES, Address, Durability
from ackline.stores.redis.facts import Facts, weakest

OLDEST = {"redis": (6, 2), "valkey": (7, 2)}

SYNC_SINCE = (7, 2)


def require_safe(facts: Facts, address: Address) -> None:
    """Refuse a server that would lose jobs, or that cannot run the scripts."""
    server = f"{facts.where} is {facts.product} {facts.version}"
    if facts.number < OLDEST[facts.product]:
        least = ".".join(map(str, OLDEST[facts.product]))
        raise StoreError(f"{server}: it must be {least} or newer")
    if address.fsync and facts.number < SYNC_SINCE:
        raise ConfigError(f"{server}: fsync=yes needs 7.2 or newer (WAITAOF)")
    if facts.clustered and address.mode != "cluster":
        raise ConfigError(f"{facts.where} is a node of a cluster: its URL is redis+cluster://…")
    for danger in _dangers(facts, address):
        raise ConfigError(f"{danger.says}: {danger.do}")


def troubles_of(
    nodes: Sequence[Facts], address: Address, opened_on: Durability
) -> tuple[Trouble, ...]:
    """What is not as it should be, or worse than when the store was opened."""
    troubles = [trouble for facts in nodes for trouble in _of_server(facts, address)]
    now = weakest(nodes).promise(address)
    if _is_less(now, opened_on) and not any(one.what == "durability" for one in troubles):
        says = f"its durability is {now}, and was {opened_on} when the store was opened"
        do = "set appendonly and appendfsync as they were, or open the store anew if it is meant so"
        troubles.append(Trouble("durability", says, do))
    return tuple(troubles)


def _of_server(facts: Facts, address: Address) -> Iterator[Trouble]:
    if facts.role in ("slave", "replica"):
        yield Trouble("store", "it is a replica: nothing can be enqueued", "name its primary")
    yield from _dangers(facts, address)


def _dangers(facts: Facts, address: Address) -> Iterator[Trouble]:
    """Settings by which jobs get lost; they may be changed while the server runs."""
    if facts.policy != "noeviction":
        yield Trouble(
            "eviction",
            f"{facts.where} has maxmemory-policy {facts.policy}, which throws jobs away when it "
            "is full",
            "CONFIG SET maxmemory-policy noeviction",
        )
    have, wanted = facts.promise(address), address.durability
    if address.fsync and have == "none":
        says = f"{facts.where} has no append-only file to sync"
        yield Trouble("durability", says, "set appendonly yes")
    elif wanted and _is_less(have, wanted):
        yield Trouble(
            "durability",
            f"{facts.where} has durability {have}, but {wanted} is asked for",
            f"set appendonly yes and appendfsync {wanted}, or ask for less",
        )


def _is_less(one: Durability, other: Durability) -> bool:
    return DURABILITIES.index(one) < DURABILITIES.index(other)
