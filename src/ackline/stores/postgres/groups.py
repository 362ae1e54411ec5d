"""Groups: how many jobs of one group may be processing at once.

A claim parks the queued jobs of a full group, so that later claims do not read them again. When a
group may have a free slot, as many jobs as fit are unparked. One too many does no harm, because the
next claim parks it again. A transaction that changes a group locks its row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ackline.stores.postgres.io.pipeline import ByteStrings, Ints
from ackline.stores.postgres.io.transaction import Transaction
from ackline.stores.postgres.queue_cache import CachedQueue


def lock_groups(tx: Transaction, cached: CachedQueue, groups: Iterable[str]) -> dict[str, int]:
    """Lock groups, created if needed; returns how many jobs of each are leased."""
    rows = tx.rows("lock_groups", {"queue": cached.num, "names": _names(groups)})
    return {name.decode(): running for name, running in rows}


def lock_free_groups(tx: Transaction, cached: CachedQueue, groups: Iterable[str]) -> dict[str, int]:
    """Like `lock_groups`, without groups that another transaction has locked.

    A borrowed transaction that settles a job of a group keeps the group locked until it ends, and
    no claim should wait for that.
    """
    rows = tx.rows("lock_free_groups", {"queue": cached.num, "names": _names(groups)})
    return {name.decode(): running for name, running in rows}


def change_running(tx: Transaction, cached: CachedQueue, changes: Mapping[str, int]) -> None:
    """Change how many leases groups count; the groups are locked already."""
    names = sorted(changes)
    values = {"queue": cached.num, "names": _names(names)}
    tx.send("set_running", values | {"changes": Ints([changes[name] for name in names])})
    tx.send("delete_empty_groups", values)


def free_groups(tx: Transaction, cached: CachedQueue, left: Mapping[str, int]) -> None:
    """Count ended leases, and unpark jobs of their groups."""
    if not left:
        return
    running = lock_groups(tx, cached, left)
    change_running(tx, cached, {group: -count for group, count in left.items()})
    for group, count in left.items():
        free = cached.settings.group_limit - max(0, running[group] - count)
        if free > 0:
            unpark(tx, cached, group, free)


def unpark(tx: Transaction, cached: CachedQueue, group: str, limit: int) -> None:
    """Unpark up to `limit` jobs of each kind, because a claim may want only some kinds."""
    values = {"queue": cached.num, "group": group.encode(), "limit": limit}
    if tx.rows("unpark", values):
        tx.wakeups.add(("ready", cached.key))


def unpark_all(tx: Transaction, cached: CachedQueue, limit: int) -> None:
    """Unpark jobs of every group, because the group limit has changed."""
    groups = [group.decode() for (group,) in tx.rows("parked_groups", {"queue": cached.num})]
    if not groups:
        return
    running = lock_groups(tx, cached, groups)
    change_running(tx, cached, dict.fromkeys(groups, 0))
    for group in groups:
        unpark(tx, cached, group, max(0, limit - running[group]))


def _names(groups: Iterable[str]) -> ByteStrings:
    return ByteStrings([group.encode() for group in sorted(groups)])
