"""Queues: counts, settings, workers, and operations on a whole queue."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from litestar import Response, Router
from litestar.di import NamedDependency
from litestar.params import JSONBody, QueryParameter
from msgspec import UNSET, UnsetType

from ackline.core.config import MAX_REPAIR_LIMIT, QueueSettings
from ackline.core.job import QueueKey, State
from ackline.core.limits import truncate_note
from ackline.queue.operate import drop_steps, purge_steps
from ackline.service.auth.caller import Caller
from ackline.service.auth.permissions import Permission
from ackline.service.http.etags import (
    ETAG_RESPONSES,
    IfMatch,
    IfNoneMatch,
    require_if_match,
    with_etag,
)
from ackline.service.http.job_bodies import PolicyBody
from ackline.service.http.parameters import QueuePath, Seconds
from ackline.service.http.request_body import Body
from ackline.service.operations.rename_queue import rename_steps
from ackline.service.routes.decorators import delete, get, get_or_head, patch, post
from ackline.stores.contract import Filter, QueueInfo, WorkerRecord


class QueueDocument(msgspec.Struct):
    """A queue with its counts and settings."""

    queue: str
    paused: bool
    counts: dict[State, int]
    settings: dict[str, Any]


class QueueList(msgspec.Struct):
    """All queues that the caller can see."""

    queues: list[QueueDocument]


class ChangedCount(msgspec.Struct):
    """How many jobs were changed."""

    changed: int


class SettingsBody(Body):
    """New settings; omitted fields stay."""

    policy: PolicyBody | UnsetType = UNSET
    kinds: dict[str, PolicyBody] | UnsetType = UNSET
    ageing: Seconds | UnsetType = UNSET
    group_limit: Annotated[int, msgspec.Meta(ge=1)] | UnsetType = UNSET
    max_jobs: Annotated[int, msgspec.Meta(ge=0)] | UnsetType | None = UNSET
    repair_limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_REPAIR_LIMIT)] | UnsetType = UNSET
    keep_journal: Seconds | UnsetType = UNSET
    max_journal: Annotated[int, msgspec.Meta(ge=0)] | UnsetType | None = UNSET

    def changes(self) -> dict[str, Any]:
        """The changed settings, for `QueueSettings`."""
        fields = self.__struct_fields__
        values = {name: getattr(self, name) for name in fields}
        given = {name: value for name, value in values.items() if value is not UNSET}
        if isinstance(self.policy, PolicyBody):
            given["policy"] = self.policy.policy()
        if isinstance(self.kinds, dict):
            given["kinds"] = {kind: policy.policy() for kind, policy in self.kinds.items()}
        return given


class RenameBody(Body):
    """The new name of a queue."""

    to: str
    merge: bool = False
    """Whether a queue with that name may already exist: then both become one."""


class WorkerDocument(msgspec.Struct):
    """A worker with its last heartbeat."""

    id: str
    queue: str
    host: str
    pid: int
    started_at: float
    last_heartbeat_at: float
    alive: bool
    alive_until: float
    """When its last heartbeat expires; if its process exited, when that was."""
    leases: int
    concurrency: int
    kinds: tuple[str, ...] | None


class WorkerList(msgspec.Struct):
    """All workers."""

    workers: list[WorkerDocument]


@get("/queues", summary="List queues")
async def list_queues(caller: NamedDependency[Caller]) -> QueueList:
    """All queues with their counts."""
    return QueueList(
        [_document(info) for info in await _visible_queues(caller, Permission.READ_QUEUES)]
    )


@get_or_head("/queues/{queue:str}", summary="Show a queue", **ETAG_RESPONSES, problems=(404,))
async def get_queue(
    queue: QueuePath, caller: NamedDependency[Caller], if_none_match: IfNoneMatch = None
) -> Response[QueueDocument]:
    """A queue with its counts and settings."""
    document = _document(await caller.describe(queue, Permission.READ_QUEUES))
    return with_etag(document, document.settings, document.counts, if_none_match)


@patch(
    "/queues/{queue:str}",
    summary="Change a queue's settings",
    problems=(404, 412),
    example={"policy": {"max_attempts": 5, "backoff": [1, 5, 30]}, "max_jobs": 100000},
)
async def configure_queue(
    queue: QueuePath,
    data: JSONBody[SettingsBody],
    caller: NamedDependency[Caller],
    if_match: IfMatch = None,
) -> QueueDocument:
    """Change some settings; a queue that does not exist is created, unless `If-Match` is sent.

    `If-Match` is checked atomically with the change.
    """
    job_queue = caller.queue(queue, Permission.CONFIGURE).sync
    if if_match is not None:
        await caller.describe(queue, Permission.CONFIGURE)

    def change(stored: QueueSettings) -> QueueSettings:
        require_if_match(if_match, msgspec.to_builtins(stored))
        return job_queue.policies.with_changes(stored, data.changes())

    await caller.runtime.call(job_queue.policies.change, change, truncate_note(caller.by))
    return _document(await caller.describe(queue, Permission.CONFIGURE))


@post("/queues/{queue:str}/pause", status_code=200, summary="Pause a queue", problems=(404,))
async def pause_queue(queue: QueuePath, caller: NamedDependency[Caller]) -> QueueDocument:
    """Pause a queue until it is resumed; running jobs continue."""
    await caller.queue(queue, Permission.CONFIGURE).pause(by=caller.by)
    return _document(await caller.describe(queue, Permission.CONFIGURE))


@post("/queues/{queue:str}/resume", status_code=200, summary="Resume a queue", problems=(404,))
async def resume_queue(queue: QueuePath, caller: NamedDependency[Caller]) -> QueueDocument:
    """Resume a paused queue."""
    await caller.queue(queue, Permission.CONFIGURE).resume(by=caller.by)
    return _document(await caller.describe(queue, Permission.CONFIGURE))


@post("/queues/{queue:str}/purge", status_code=200, summary="Purge a queue", problems=(404,))
async def purge_queue(queue: QueuePath, caller: NamedDependency[Caller]) -> ChangedCount:
    """Delete all jobs in any state; the queue and its settings stay."""
    await caller.describe(queue, Permission.DELETE)
    job_queue = caller.queue(queue, Permission.DELETE).sync
    job_filter = Filter(kinds=caller.kinds(None))
    return ChangedCount(await caller.run_chunks(purge_steps(job_queue, job_filter, caller.by)))


@delete(
    "/queues/{queue:str}",
    status_code=200,
    summary="Drop a queue",
    problems=(404, 409, 412),
)
async def drop_queue(
    queue: QueuePath,
    caller: NamedDependency[Caller],
    force: Annotated[
        bool, QueryParameter(description="Even if it has unfinished jobs, which are deleted.")
    ] = False,
    if_match: IfMatch = None,
) -> ChangedCount:
    """Drop a queue with its finished jobs, settings and schedules; 409 while it has other jobs.

    Its journal stays until its retention ends. A new job creates the queue again.
    """
    job_queue = caller.queue(queue, Permission.DROP).sync
    info = await caller.describe(queue, Permission.DROP)
    require_if_match(if_match, msgspec.to_builtins(info.settings))
    return ChangedCount(await caller.run_chunks(drop_steps(job_queue, force, caller.by)))


@post(
    "/queues/{queue:str}/rename",
    status_code=200,
    summary="Rename a queue",
    problems=(404, 409),
    example={"to": "email-new"},
)
async def rename_queue(
    queue: QueuePath, data: JSONBody[RenameBody], caller: NamedDependency[Caller]
) -> QueueDocument:
    """Rename a queue: all its jobs and settings move, or none do.

    409 while jobs are running, and if the new name exists, unless both are to be merged. If the
    service is killed meanwhile, no job is lost, but the old queue stays paused with the jobs that
    have not moved: repeat the request with `merge`.
    """
    source, target = caller.queue(queue, Permission.DROP), caller.queue(data.to, Permission.DROP)
    await caller.describe(queue, Permission.DROP)
    await caller.run_chunks(rename_steps(source.sync, target.sync, caller.by, merge=data.merge))
    return _document(await caller.describe(data.to, Permission.DROP))


@get("/queues/{queue:str}/workers", summary="List a queue's workers", problems=(404,))
async def list_queue_workers(queue: QueuePath, caller: NamedDependency[Caller]) -> WorkerList:
    """The workers of a queue that have sent a heartbeat."""
    info = await caller.describe(queue, Permission.READ_WORKERS)
    return WorkerList(await caller.run_slow(_workers, caller, [info.key]))


@get("/workers", summary="List workers")
async def list_workers(caller: NamedDependency[Caller]) -> WorkerList:
    """The workers of all queues."""
    keys = [info.key for info in await _visible_queues(caller, Permission.READ_WORKERS)]
    return WorkerList(await caller.run_slow(_workers, caller, keys))


async def _visible_queues(caller: Caller, permission: Permission) -> list[QueueInfo]:
    queues = caller.tenant_queues(permission)
    found = await caller.runtime.call(queues.describe)
    return list(filter(caller.principal.can_see, found))


def _document(info: QueueInfo) -> QueueDocument:
    settings = msgspec.to_builtins(info.settings)
    return QueueDocument(info.key.name, info.settings.paused, dict(info.counts), settings)


def _workers(caller: Caller, keys: list[QueueKey]) -> list[WorkerDocument]:
    store = caller.runtime.store
    now, found = store.now(), store.workers(keys)
    return [
        _worker(key.name, worker, now)
        for key, workers in zip(keys, found, strict=True)
        for worker in workers
    ]


def _worker(queue: str, worker: WorkerRecord, now: float) -> WorkerDocument:
    heartbeat = worker.heartbeat
    return WorkerDocument(
        id=heartbeat.id,
        queue=queue,
        host=heartbeat.host,
        pid=heartbeat.pid,
        started_at=heartbeat.started_at,
        last_heartbeat_at=worker.last_heartbeat_at,
        alive=worker.expires_at > now,
        alive_until=worker.expires_at,
        leases=worker.leases,
        concurrency=heartbeat.concurrency,
        kinds=heartbeat.kinds,
    )


router = Router(
    "/",
    route_handlers=[
        list_queues,
        get_queue,
        configure_queue,
        pause_queue,
        resume_queue,
        purge_queue,
        drop_queue,
        rename_queue,
        list_queue_workers,
        list_workers,
    ],
    tags=["Queues"],
)
