"""Heartbeats: record that a worker is alive, and extend its leases."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ackline.core.job import QueueKey
from ackline.stores.contract import Heartbeat, HeartbeatReply, LeaseExtension
from ackline.stores.postgres.engine import Engine
from ackline.stores.postgres.io.pipeline import Ints
from ackline.stores.postgres.io.transaction import Transaction
from ackline.stores.postgres.leases import Leases, evict_jobs, job_numbers
from ackline.stores.postgres.queue_cache import CachedQueue
from ackline.stores.shared.heartbeat import JobLease, plan_heartbeat
from ackline.stores.shared.record_encoding import encode_heartbeat

LOCKED_LEASE_DELAYS = (0.0, 0.005, 0.01, 0.02, 0.05, 0.1)
"""Seconds to wait before each retry at leases that another transaction is changing."""

Extensions = Mapping[int, LeaseExtension]
"""The requested extensions by their index in the worker's list."""


class ExtendResult(NamedTuple):
    """The results of extensions, by index."""

    lost: list[int]
    cancelled: list[int]
    busy: list[int]
    """Leases that exist, but are being changed by another transaction."""


def save_heartbeat(
    engine: Engine,
    queue: QueueKey,
    heartbeat: Heartbeat | None,
    extensions: Sequence[LeaseExtension],
) -> HeartbeatReply:
    """Record that a worker is alive, and extend its leases.

    It never waits for a lock: a borrowed transaction may keep one for long, and other leases must
    not lapse because of that. A lease that stays locked is not extended, but not lost either.
    """
    by_index = dict(enumerate(extensions))
    result = engine.write(
        lambda tx: _save_and_extend(tx, engine.queues.ensure(tx, queue), heartbeat, by_index)
    )
    for delay in LOCKED_LEASE_DELAYS:
        if not result.busy:
            break
        time.sleep(delay)
        result = _extend_again(engine, queue, by_index, result)
    return HeartbeatReply(sorted(result.lost), sorted(result.cancelled))


def _extend_again(
    engine: Engine, queue: QueueKey, extensions: Extensions, result: ExtendResult
) -> ExtendResult:
    left = {index: extensions[index] for index in result.busy}
    more = engine.write(lambda tx: _extend(tx, engine.queues.ensure(tx, queue), left))
    return ExtendResult(result.lost + more.lost, result.cancelled + more.cancelled, more.busy)


def _save_and_extend(
    tx: Transaction, cached: CachedQueue, heartbeat: Heartbeat | None, extensions: Extensions
) -> ExtendResult:
    if heartbeat is None:
        return _extend(tx, cached, extensions)
    name = {"queue": cached.num, "id": heartbeat.id.encode()}
    if heartbeat.ttl > 0:
        values = {
            "heartbeat": encode_heartbeat(heartbeat),
            "last_heartbeat": tx.now,
            "expires": tx.now + heartbeat.ttl,
        }
        tx.send("save_heartbeat", name | values)
    else:
        tx.send("remove_worker", name)
    return _extend(tx, cached, extensions)


def _extend(tx: Transaction, cached: CachedQueue, extensions: Extensions) -> ExtendResult:
    """Extend the leases that no other transaction is changing."""
    leases = Leases(tx, cached)
    nums = job_numbers(tx, cached, [extension.id for extension in extensions.values()])
    leases.add_rows(_rows(tx, cached, "lock_free_leases", extensions, nums))

    def find(id: str) -> JobLease[int] | None:
        num = nums.get(id, 0)
        lease = leases.find(num)
        if lease is None:
            return None
        return (num, lease.token, lease.deadline, num in lease.cancel_requested)

    plan = plan_heartbeat(extensions.items(), find, tx.now)
    for num, deadline in plan.extended:
        leases.extend(num, deadline)
    leases.write()
    result = ExtendResult([], plan.cancelled, [])
    missing = dict[int, LeaseExtension]()
    for index in plan.lost:
        extension = extensions[index]
        if cached.may_be_in_transaction(extension.id, extension.token):
            continue  # neither lost nor extended: the borrowed transaction ends the lease
        lease = leases.find(nums.get(extension.id, 0))
        if lease is not None and lease.token == extension.token:
            result.lost.append(index)
        else:
            missing[index] = extension
    if missing:
        _classify_missing(tx, cached, missing, result)
    return result


def _classify_missing(
    tx: Transaction, cached: CachedQueue, missing: Extensions, result: ExtendResult
) -> None:
    """Distinguish lost leases from those that another transaction is changing."""
    ids = [extension.id for extension in missing.values()]
    evict_jobs(cached, ids)
    nums, leases = job_numbers(tx, cached, ids), Leases(tx, cached)
    leases.add_rows(_rows(tx, cached, "read_leases", missing, nums))
    for index, extension in missing.items():
        lease = leases.find(nums.get(extension.id, 0))
        is_current = lease is not None and lease.token == extension.token
        (result.busy if is_current else result.lost).append(index)


def _rows(
    tx: Transaction,
    cached: CachedQueue,
    statement: str,
    extensions: Extensions,
    nums: Mapping[str, int],
) -> list[tuple[object, ...]]:
    """The rows of these leases."""
    existing = [extension for extension in extensions.values() if extension.id in nums]
    if not existing:
        return []
    tokens = Ints(sorted({extension.token for extension in existing}))
    jobs = Ints([nums[extension.id] for extension in existing])
    return tx.rows(statement, {"queue": cached.num, "tokens": tokens, "jobs": jobs})
