"""Settings, retention, purging, dropping, and the key-value store."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from ackline.core.config import DEFAULT_SETTINGS, QueueSettings
from ackline.core.errors import StoreError
from ackline.core.job import QueueKey
from ackline.stores.contract import (
    DEAD_WORKER_RETENTION,
    Filter,
    KeyValue,
    KeyWrite,
    act_of_change,
    are_internal_writes,
)
from ackline.stores.redis.cluster_moves import finish_moves
from ackline.stores.redis.journal import first_needed
from ackline.stores.redis.queries import ListOptions, matching
from ackline.stores.redis.scripts import Scripts
from ackline.stores.shared.record_encoding import decode_settings
from ackline.stores.shared.retention import find_and_purge, prune_in_steps

GROUPS_PER_CALL = 10
"""Groups that one call unparks: each may have a thousand jobs, and other clients wait."""


def settings_of(scripts: Scripts, queue: QueueKey) -> tuple[bytes | None, QueueSettings]:
    """The settings of a queue, encoded as the server stores them and decoded."""
    base = scripts.names.base(queue)
    with scripts.connection.translate_errors:
        stored = scripts.connection.client.hget(f"{base}:queue", "settings")
    return stored, DEFAULT_SETTINGS if stored is None else decode_settings(stored)


def configure(
    scripts: Scripts,
    queue: QueueKey,
    settings: QueueSettings,
    expected: QueueSettings | None,
    by: str,
) -> bool:
    """Replace a queue's settings."""
    while True:
        stored, current = settings_of(scripts, queue)
        if expected is not None and expected != current:
            return False
        if stored is None:
            scripts.create_queue(queue)
            continue
        act = act_of_change(current, settings)
        answer = scripts.configure(queue, settings, stored, act, by)
        if answer == _LIMIT_RAISED:
            _unpark_groups(scripts, queue)
        if answer:
            return True


_LIMIT_RAISED = 2
"""The script's answer when groups may have more capacity than before."""


def _unpark_groups(scripts: Scripts, queue: QueueKey) -> None:
    """Unpark jobs after the group limit was raised.

    If this is interrupted, the other jobs follow when the next lease of their group ends.
    """
    parked = f"{scripts.names.base(queue)}:parked"
    with scripts.connection.translate_errors:
        groups = iter(scripts.connection.client.sscan_iter(parked, count=GROUPS_PER_CALL))
        while some := list(itertools.islice(groups, GROUPS_PER_CALL)):
            scripts.unpark_groups(queue, some)


def prune(
    scripts: Scripts,
    queue: QueueKey,
    limit: int,
    max_journal: int,
    needed_after: str | None,
    now: float,
) -> int:
    """Delete jobs and journal batches past their retention, and workers that died long ago."""
    if scripts.names.clustered:
        finish_moves(scripts, queue)
    _, settings = settings_of(scripts, queue)
    needed = first_needed(scripts.names, queue, needed_after)
    return prune_in_steps(
        queue,
        limit,
        lambda remaining: scripts.prune(
            queue,
            remaining,
            too_old=int((now - settings.keep_journal) * 1e6),
            needed=needed,
            max_events=max_journal if settings.max_journal is None else settings.max_journal,
            dead_before=now - DEAD_WORKER_RETENTION,
        ),
    )


def purge(scripts: Scripts, queue: QueueKey, job_filter: Filter, limit: int, by: str) -> int:
    """Delete matching jobs, whatever their state."""

    def find() -> list[tuple[int, str]]:
        found = matching(scripts, queue, job_filter, ListOptions(with_expired=True))
        numbered = ((job.number, job.record.id) for job in found)
        return sorted(itertools.islice(numbered, max(limit, 0)))

    return find_and_purge(find, lambda jobs: scripts.purge(queue, by, job_filter.states, jobs))


def drop(scripts: Scripts, queue: QueueKey, by: str) -> bool:
    """Delete an empty queue, except its journal."""
    if scripts.names.clustered:
        finish_moves(scripts, queue)
    return scripts.drop(queue, by)


def read_keys(
    scripts: Scripts,
    tenant: str,
    prefix: tuple[str, ...],
    limit: int,
    after: tuple[str, ...] | None,
    max_bytes: int | None,
) -> list[KeyValue]:
    """The keys that start with `prefix` and come after the key `after`."""
    base = scripts.names.base_of_key(tenant, prefix)
    return scripts.read_keys(base, prefix, after, limit, max_bytes)


def write_keys(scripts: Scripts, tenant: str, writes: Sequence[KeyWrite]) -> bool:
    """Apply all writes, or none."""
    by_base: dict[str, list[KeyWrite]] = {}
    for write in writes:
        by_base.setdefault(scripts.names.base_of_key(tenant, write.key), []).append(write)
    if len(by_base) > 1:
        raise StoreError("a cluster cannot write keys of a queue together with other keys")
    return all(
        scripts.write_keys(base, together, even_if_full=are_internal_writes(together))
        for base, together in by_base.items()
    )
