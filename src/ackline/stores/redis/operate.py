"""Settings, retention, purging, and the small key-value room."""

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
"""Groups to open in one step: each may let a thousand jobs into line, and other clients wait."""


def settings_of(scripts: Scripts, queue: QueueKey) -> tuple[bytes | None, QueueSettings]:
    """The settings of a queue, as the server keeps them and decoded."""
    base = scripts.names.base(queue)
    with scripts.connection.translate_errors:
        kept = scripts.connection.client.hget(f"{base}:queue", "settings")
    return kept, DEFAULT_SETTINGS if kept is None else decode_settings(kept)


def configure(
    scripts: Scripts,
    queue: QueueKey,
    settings: QueueSettings,
    expected: QueueSettings | None,
    by: str,
) -> bool:
    """Replace a queue's settings."""
    while True:
        kept, current = settings_of(scripts, queue)
        if expected is not None and expected != current:
            return False
        if kept is None:
            scripts.create_queue(queue)
            continue
        act = act_of_change(current, settings)
        done = scripts.configure(queue, settings, kept, act, by)
        if done == _LIMIT_RAISED:
            _unpark_groups(scripts, queue)
        if done:
            return True


_LIMIT_RAISED = 2
"""The script's answer when groups may have more room than before."""


def _unpark_groups(scripts: Scripts, queue: QueueKey) -> None:
    """Let jobs into line that full groups hold back.

    If this is cut short, the other jobs follow when the next job of their group ends.
    """
    held = f"{scripts.names.base(queue)}:parked"
    with scripts.connection.translate_errors:
        groups = iter(scripts.connection.client.sscan_iter(held, count=GROUPS_PER_CALL))
        while chunk := list(itertools.islice(groups, GROUPS_PER_CALL)):
            scripts.unpark_groups(queue, chunk)


def prune(
    scripts: Scripts,
    queue: QueueKey,
    limit: int,
    most: int,
    keep_from: str | None,
    now: float,
) -> int:
    """Drop terminal jobs and journal batches past their time, and workers long gone."""
    if scripts.names.clustered:
        finish_moves(scripts, queue)
    _, settings = settings_of(scripts, queue)
    needed = first_needed(scripts.names, queue, keep_from)
    return prune_in_steps(
        queue,
        limit,
        lambda left: scripts.prune(
            queue,
            left,
            too_old=int((now - settings.keep_journal) * 1e6),
            needed=needed,
            most=most if settings.max_journal is None else settings.max_journal,
            forget_before=now - DEAD_WORKER_RETENTION,
        ),
    )


def purge(scripts: Scripts, queue: QueueKey, which: Filter, limit: int, by: str) -> int:
    """Delete matching jobs, whatever their state."""

    def find() -> list[tuple[int, str]]:
        found = matching(scripts, queue, which, ListOptions(kept=False))
        places = ((seen.number, seen.record.id) for seen in found)
        return sorted(itertools.islice(places, max(limit, 0)))

    return find_and_purge(find, lambda jobs: scripts.purge(queue, by, which.states, jobs))


def drop(scripts: Scripts, queue: QueueKey, by: str) -> bool:
    """Forget everything of an empty queue except its journal."""
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
    room = scripts.names.base_of_key(tenant, prefix)
    return scripts.read_keys(room, prefix, after, limit, max_bytes)


def write_keys(scripts: Scripts, tenant: str, writes: Sequence[KeyWrite]) -> bool:
    """Apply all writes, or none."""
    by_room: dict[str, list[KeyWrite]] = {}
    for write in writes:
        by_room.setdefault(scripts.names.base_of_key(tenant, write.key), []).append(write)
    if len(by_room) > 1:
        raise StoreError("a cluster cannot write keys beside queues together with others")
    return all(
        scripts.write_keys(room, together, even_if_full=are_internal_writes(together))
        for room, together in by_room.items()
    )
