"""Jobs, queues, workers and events as JSON documents."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import msgspec

from ackline.events import Event
from ackline.job import Record
from ackline.queue import RecoveryStats
from ackline.stores.base import QueueInfo, WorkerRecord


def readable(data: bytes | None, codec: str | None = None) -> Any:
    """A payload or result as a value; what is not JSON comes as base64."""
    if data is None:
        return None
    try:
        if codec == "msgpack":
            return msgspec.to_builtins(msgspec.msgpack.decode(data))
        if codec is None:
            return msgspec.json.decode(data)
    except msgspec.DecodeError:
        pass
    return {"base64": base64.b64encode(data).decode(), "codec": codec or "unknown"}


def job_document(record: Record, queue: str) -> dict[str, Any]:
    """All about one job."""
    document: dict[str, Any] = {"queue": queue, **msgspec.structs.asdict(record)}
    codec = record.options.codec
    document["payload"] = readable(record.payload, codec)
    document["result"] = readable(record.result, codec)
    document["progress"] = readable(record.progress, codec)
    document["failures"] = document.pop("history")
    return document


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
    """A worker with its last sign of life."""
    return {
        **msgspec.structs.asdict(worker.beat),
        "seen_at": worker.seen_at,
        "alive": worker.expires_at > now,
        "holds": worker.holds,
    }


def recovery_document(stats: RecoveryStats) -> dict[str, Any]:
    """How many jobs were recovered in which way, and which ones wait for it."""
    return {"jobs": stats.jobs, **msgspec.to_builtins(stats)}


def event_document(event: Event) -> dict[str, Any]:
    """One entry of the journal."""
    document = msgspec.structs.asdict(event)
    return {**document, "tenant": event.queue.tenant, "queue": event.queue.name}
