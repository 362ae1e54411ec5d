"""Queues and workers as JSON documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ackline.queue import RecoveryStats
from ackline.stores.contract import QueueInfo, WorkerRecord


def queue_document(info: QueueInfo, extra: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A queue with its counts."""
    return {
        "tenant": info.key.tenant,
        "queue": info.key.name,
        "paused": info.settings.paused,
        "counts": {state.value: number for state, number in info.counts.items()},
        **(extra or {}),
    }


def worker_document(worker: WorkerRecord, now: float) -> dict[str, Any]:
    """A worker with its last heartbeat."""
    return {
        **msgspec.structs.asdict(worker.heartbeat),
        "last_heartbeat_at": worker.last_heartbeat_at,
        "alive": worker.expires_at > now,
        "leases": worker.leases,
    }


def recovery_document(stats: RecoveryStats) -> dict[str, Any]:
    """How many jobs were recovered, by what, and which leases are overdue."""
    return {"jobs": stats.jobs, **msgspec.to_builtins(stats)}
