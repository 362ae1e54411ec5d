"""Schedules: cron expressions that enqueue jobs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from litestar import Response, Router
from litestar.di import NamedDependency
from litestar.params import JSONBody, PathParameter

from ackline.core.cron import Schedule
from ackline.core.job import QueueKey
from ackline.core.limits import require_name
from ackline.service import schedules
from ackline.service.auth.caller import Caller
from ackline.service.auth.permissions import Permission
from ackline.service.http.etags import (
    ETAG_RESPONSES,
    IfMatch,
    IfNoneMatch,
    require_if_match,
    with_etag,
)
from ackline.service.http.job_bodies import JobOptions
from ackline.service.http.parameters import QueuePath
from ackline.service.http.problems import Conflict, NotFound
from ackline.service.routes.decorators import delete, get, get_or_head, put

Name = Annotated[str, PathParameter(description="The schedule's name.")]


class ScheduleBody(JobOptions):
    """When to enqueue which job; the schedule sets its id, delay and run_at."""

    cron: str = ""
    payload: Any = None
    timezone: str = "UTC"
    catch_up: Literal["one", "all", "none"] = "one"


class ScheduleDocument(msgspec.Struct):
    """A schedule, and its next tick."""

    name: str
    queue: str
    cron: str
    kind: str
    payload: Any
    timezone: str
    catch_up: str
    options: dict[str, Any]
    next_at: float


class ScheduleList(msgspec.Struct):
    """All schedules of a queue, or of all queues."""

    schedules: list[ScheduleDocument]


@get("/schedules", summary="List the schedules of all queues")
async def list_all_schedules(caller: NamedDependency[Caller]) -> ScheduleList:
    """All schedules that were created over HTTP, ordered by their next tick.

    A schedule may exist before its queue, which its first tick creates.
    """
    caller.require(Permission.READ_SCHEDULES)
    return await caller.run_slow(_list_all, caller)


@get("/", summary="List schedules")
async def list_schedules(queue: QueuePath, caller: NamedDependency[Caller]) -> ScheduleList:
    """The schedules of a queue that were created over HTTP, not those in the code of workers."""
    key = caller.queue(queue, Permission.READ_SCHEDULES).sync.key
    store = caller.runtime.store
    found = await caller.run_slow(schedules.read_all, store, key)
    now = await caller.runtime.call(store.now)
    own = [schedule for schedule in found if caller.principal.may_use_kind(schedule.kind)]
    return ScheduleList([_document(queue, schedule, now) for schedule in own])


@get_or_head("/{name:str}", summary="Show a schedule", **ETAG_RESPONSES, problems=(404,))
async def get_schedule(
    queue: QueuePath,
    name: Name,
    caller: NamedDependency[Caller],
    if_none_match: IfNoneMatch = None,
) -> Response[ScheduleDocument]:
    """A schedule that was created over HTTP, and its next tick."""
    key = caller.queue(queue, Permission.READ_SCHEDULES).sync.key
    store = caller.runtime.store
    found, _ = await caller.runtime.call(schedules.find, store, key, name)
    if found is None or not caller.principal.may_use_kind(found.kind):
        raise _not_found(queue, name)
    now = await caller.runtime.call(store.now)
    document = _document(queue, found, now)
    return with_etag(document, _editable(found), document.next_at, if_none_match)


@put(
    "/{name:str}",
    summary="Create or replace a schedule",
    problems=(404, 409, 412),
    example={
        "cron": "0 3 * * *",
        "timezone": "Europe/Berlin",
        "payload": {"of": "yesterday"},
        "kind": "report",
    },
)
async def put_schedule(
    queue: QueuePath,
    name: Name,
    data: JSONBody[ScheduleBody],
    caller: NamedDependency[Caller],
    if_match: IfMatch = None,
) -> ScheduleDocument:
    """Enqueue one job at each tick from now on, however many processes run.

    A queue may have 1,000 schedules, and a tenant 10,000; 409 for more.
    """
    job_queue = caller.queue(queue, Permission.WRITE_SCHEDULES)
    require_name("schedule", name)
    options: dict[str, Any] = dict(data.for_enqueue())
    kind = options.pop("kind", "default")
    caller.require_kind(kind)
    caller.require_undelivered_keys(options.get("keys_if_undelivered"))
    schedule = Schedule(name, data.cron, kind, data.payload, data.timezone, data.catch_up, options)
    # A job that could not be enqueued is refused now, not at the first tick.
    job_queue.sync.draft_builder.draft(data.payload, {"kind": kind, **options})  # type: ignore[typeddict-item]
    store = caller.runtime.store
    await caller.run_slow(_write, caller, job_queue.sync.key, schedule, if_match)
    now = await caller.runtime.call(store.now)
    return _document(queue, schedule, now)


@delete(
    "/{name:str}",
    status_code=204,
    summary="Delete a schedule",
    problems=(404, 412),
)
async def delete_schedule(
    queue: QueuePath, name: Name, caller: NamedDependency[Caller], if_match: IfMatch = None
) -> None:
    """Delete a schedule; jobs of earlier ticks stay."""
    key = caller.queue(queue, Permission.WRITE_SCHEDULES).sync.key
    await caller.runtime.call(_delete, caller, key, name, if_match)


def _list_all(caller: Caller) -> ScheduleList:
    store = caller.runtime.store
    now = store.now()
    found = [
        _document(key.name, schedule, now)
        for key, entries in schedules.read_entries(store, [caller.tenant]).items()
        if caller.principal.may_use_queue(key.name)
        for schedule in map(schedules.decode, entries)
        if caller.principal.may_use_kind(schedule.kind)
    ]
    return ScheduleList(sorted(found, key=lambda one: (one.next_at, one.queue, one.name)))


def _write(caller: Caller, key: QueueKey, schedule: Schedule, if_match: str | None) -> None:
    store = caller.runtime.store
    while True:
        found, version = schedules.find(store, key, schedule.name)
        if found is not None and not caller.principal.may_use_kind(found.kind):
            raise Conflict(
                f"the name {schedule.name!r} is taken by a schedule that your token cannot access"
            )
        if if_match is not None:
            if found is None:
                raise _not_found(key.name, schedule.name)
            require_if_match(if_match, _editable(found))
        schedules.require_within_limits(store, key, schedule)
        if schedules.write(store, key, schedule, version):
            return


def _delete(caller: Caller, key: QueueKey, name: str, if_match: str | None) -> None:
    store = caller.runtime.store
    while True:
        found, version = schedules.find(store, key, name)
        if found is None or not caller.principal.may_use_kind(found.kind):
            raise _not_found(key.name, name)
        require_if_match(if_match, _editable(found))
        if schedules.delete(store, key, name, version):
            return


def _editable(schedule: Schedule) -> object:
    return msgspec.to_builtins(schedule)


def _not_found(queue: str, name: str) -> NotFound:
    return NotFound(f"queue {queue!r} has no schedule {name!r}")


def _document(queue: str, schedule: Schedule, now: float) -> ScheduleDocument:
    return ScheduleDocument(
        name=schedule.name,
        queue=queue,
        cron=schedule.cron,
        kind=schedule.kind,
        payload=schedule.payload,
        timezone=schedule.tz,
        catch_up=schedule.catch_up,
        options=dict(schedule.options),
        next_at=schedule.next_tick(now),
    )


of_queue = Router(
    "/queues/{queue:str}/schedules",
    route_handlers=[list_schedules, get_schedule, put_schedule, delete_schedule],
)
router = Router("/", route_handlers=[list_all_schedules, of_queue], tags=["Schedules"])
