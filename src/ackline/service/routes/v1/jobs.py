"""Jobs: listed, shown, and changed one by one."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from litestar import Response, Router
from litestar.di import NamedDependency
from litestar.params import JSONBody, QueryParameter
from msgspec import UNSET, UnsetType

from ackline.core.errors import JobNotFound
from ackline.core.job import Record, State
from ackline.core.lifecycle import state_after_redrive
from ackline.journal_views.timeline import timeline as read_timeline
from ackline.queue import Job
from ackline.queue import Queue as AnyQueue
from ackline.queue.transfer.documents import (
    EventDocument,
    JobDocument,
    event_document,
    job_document,
    result_json,
)
from ackline.service.auth.caller import Caller
from ackline.service.auth.permissions import Permission
from ackline.service.delivery.long_poll import wait_for_result
from ackline.service.http.etags import (
    ETAG_RESPONSES,
    IfMatch,
    IfNoneMatch,
    has_specific_etag,
    require_if_match,
    with_etag,
)
from ackline.service.http.paging import JobOrder, ListOrder, read_page
from ackline.service.http.parameters import (
    Cursor,
    IdList,
    JobId,
    KindList,
    PageSize,
    PayloadText,
    Priority,
    QueuePath,
    Seconds,
    States,
    TagList,
    Timestamp,
)
from ackline.service.http.request_body import Body
from ackline.service.routes.decorators import delete, get, get_or_head, patch, post
from ackline.service.views.job_summary import JobSummary, summarize
from ackline.stores.contract import Filter

MAX_LEASES = 10_000
"""Maximum number of a worker's leases for a complete list of them."""

WorkerFilter = Annotated[str | None, QueryParameter(description="Only jobs leased to this worker.")]
SummaryFlag = Annotated[
    bool,
    QueryParameter(
        description="Return summaries: the start of the payload, without result and history."
    ),
]


class JobPage(msgspec.Struct):
    """A page of jobs; pass `cursor` back for the next one, null ends it.

    `now` is the store's time: only this clock decides whether a deadline has passed.
    """

    now: float
    jobs: list[JobDocument]
    cursor: str | None


class JobSummaryPage(msgspec.Struct):
    """A page of job summaries, for `summary=true`."""

    now: float
    summaries: list[JobSummary]
    cursor: str | None


class ResultDocument(msgspec.Struct):
    """The result of a completed job; other formats than JSON as `{"base64": …, "codec": …}`."""

    id: str
    result: msgspec.Raw


class JobStateDocument(msgspec.Struct):
    """The state of a job."""

    id: str
    state: State


class EditBody(Body):
    """New values for a job that is not processing; omitted fields stay."""

    payload: msgspec.Raw | UnsetType = UNSET
    priority: Priority | None = None
    delay: Seconds | None = None


class RedriveBody(Body):
    """The delay of a redriven job, in seconds."""

    delay: Seconds = 0.0


class MoveBody(Body):
    """The queue to move a job to."""

    to: str


@get("/", summary="List and search jobs", problems=(404,))
async def list_jobs(
    queue: QueuePath,
    caller: NamedDependency[Caller],
    states: States = None,
    kinds: KindList = None,
    ids: IdList = None,
    created_after: Timestamp = None,
    created_before: Timestamp = None,
    text: PayloadText = None,
    tags: TagList = None,
    worker: WorkerFilter = None,
    summary: SummaryFlag = False,
    cursor: Cursor = None,
    limit: PageSize = 100,
    order: ListOrder = JobOrder.CLAIM,
) -> JobPage | JobSummaryPage:
    """Jobs by state, then in claim order.

    A job that does not change between two pages is listed once, whatever happens to others. One
    that changes its state may be missed or listed twice: for all jobs of a busy queue, use an
    export.
    """
    job_queue = (await caller.existing_queue(queue, Permission.READ_JOBS)).sync
    job_filter = Filter(
        states=frozenset(states or State),
        kinds=caller.kinds(kinds),
        ids=frozenset(ids) if ids is not None else None,
        created_after=created_after,
        created_before=created_before,
        text=text,
        tags=frozenset(tags) if tags is not None else None,
    )
    return await caller.run_slow(
        _page, job_queue, job_filter, worker, cursor, limit, order, summary
    )


def _page(
    job_queue: AnyQueue[Any, Any],
    job_filter: Filter,
    worker: str | None,
    cursor: str | None,
    limit: int,
    order: JobOrder,
    summary: bool,
) -> JobPage | JobSummaryPage:
    store = job_queue.store
    if worker is not None:
        leased = {job.id for job in store.leases(job_queue.key, worker=worker, limit=MAX_LEASES)}
        ids = frozenset(leased if job_filter.ids is None else leased & job_filter.ids)
        job_filter = msgspec.structs.replace(
            job_filter, states=job_filter.states & {State.PROCESSING}, ids=ids
        )
    page = read_page(store, job_queue.key, job_filter, cursor, limit, order)
    found = [job for job in page.jobs if worker is None or job.worker == worker]
    now = store.now()
    if summary:
        return JobSummaryPage(now, summarize(job_queue, found), page.cursor)
    return JobPage(now, [job_document(job, job_queue.name) for job in found], page.cursor)


@get_or_head("/{id:str}", summary="Show a job", **ETAG_RESPONSES, problems=(404,))
async def get_job(
    queue: QueuePath,
    id: JobId,
    caller: NamedDependency[Caller],
    timeline: Annotated[bool, QueryParameter(description="Include its timeline.")] = True,
    if_none_match: IfNoneMatch = None,
) -> Response[JobDocument]:
    """A job with its failed attempts, and its timeline from the journal."""
    job_queue, record = await caller.job(queue, id, Permission.READ_JOBS)
    events_of_job: list[EventDocument] | UnsetType = UNSET
    complete: bool | UnsetType = UNSET
    if timeline:
        store = caller.runtime.store
        events, complete = await caller.run_slow(read_timeline, store, job_queue.sync.key, record)
        # An earlier job with this id may have been of another kind.
        events_of_job = [
            event_document(event) for event in events if caller.principal.can_see(event)
        ]

    def answer() -> Response[JobDocument]:
        job = job_document(record, queue)
        document = msgspec.structs.replace(job, timeline=events_of_job, timeline_complete=complete)
        return with_etag(document, job, document.timeline or [], if_none_match)

    return await caller.runtime.run_if_large(_size(record), answer)


@get(
    "/{id:str}/result",
    summary="Wait for a result",
    problems=(404, 409, 504),
)
async def get_job_result(
    queue: QueuePath,
    id: JobId,
    caller: NamedDependency[Caller],
    wait: Annotated[
        float, QueryParameter(ge=0, le=60, description="Maximum seconds to wait.")
    ] = 0.0,
) -> ResultDocument:
    """The result of a completed job; 504 if it has not finished in time, 409 if it failed.

    503 if the service shuts down meanwhile.
    """
    job_queue, _ = await caller.job(queue, id, Permission.READ_RESULT)
    with caller.runtime.pinned_queue(job_queue.sync.key) as pinned:
        if wait:
            await wait_for_result(caller, lambda: pinned.result(id, wait))
        else:
            await pinned.result(id)
    _, record = await caller.job(queue, id, Permission.READ_RESULT)
    result = await caller.runtime.run_if_large(_size(record), lambda: result_json(record))
    return ResultDocument(id, result)


@post(
    "/{id:str}/cancel",
    status_code=200,
    summary="Cancel a job",
    problems=(404, 409),
)
async def cancel_job(
    queue: QueuePath, id: JobId, caller: NamedDependency[Caller]
) -> JobStateDocument:
    """Cancel a waiting job, or request cancellation of a running one; finished jobs stay."""
    job_queue, _ = await caller.job(queue, id, Permission.CANCEL)
    return JobStateDocument(id, await job_queue.cancel(id, by=caller.by))


@post(
    "/{id:str}/redrive",
    status_code=200,
    summary="Redrive a job",
    problems=(404, 409),
    example={"delay": 0},
)
async def redrive_job(
    queue: QueuePath, id: JobId, caller: NamedDependency[Caller], data: JSONBody[RedriveBody]
) -> JobStateDocument:
    """Move a job from the DLQ back into its queue, with all its attempts."""
    job_queue, _ = await caller.job(queue, id, Permission.REDRIVE)
    await job_queue.redrive(id, delay=data.delay, by=caller.by)
    return JobStateDocument(id, state_after_redrive(data.delay))


@patch(
    "/{id:str}",
    summary="Edit a job",
    problems=(404, 409, 412),
    example={"payload": {"to": "bob@example.com"}, "priority": 9},
)
async def edit_job(
    queue: QueuePath,
    id: JobId,
    data: JSONBody[EditBody],
    caller: NamedDependency[Caller],
    if_match: IfMatch = None,
) -> JobDocument:
    """Change the payload, the priority or the delay of a job that is not processing."""
    job_queue, expected = await caller.job(queue, id, Permission.EDIT)
    await _require_match(caller, if_match, queue, expected)
    changes: dict[str, Any] = {"priority": data.priority, "delay": data.delay}
    if has_specific_etag(if_match):
        changes["expected"] = Job(expected, job_queue.sync, None)
    if data.payload is not UNSET:
        changes["payload"] = data.payload
    await job_queue.edit(id, by=caller.by, **changes)
    _, record = await caller.job(queue, id, Permission.EDIT)
    return await _document(caller, queue, record)


@post(
    "/{id:str}/move",
    status_code=200,
    summary="Move a job",
    problems=(404, 409),
    example={"to": "email-slow"},
)
async def move_job(
    queue: QueuePath, id: JobId, data: JSONBody[MoveBody], caller: NamedDependency[Caller]
) -> JobDocument:
    """Move a job that is not processing to another queue."""
    job_queue, _ = await caller.job(queue, id, Permission.MOVE)
    caller.require_queue(data.to)
    await job_queue.move(id, data.to, by=caller.by)
    _, record = await caller.job(data.to, id, Permission.MOVE)
    return await _document(caller, data.to, record)


@delete(
    "/{id:str}",
    status_code=204,
    summary="Delete a job",
    problems=(404, 412),
)
async def delete_job(
    queue: QueuePath, id: JobId, caller: NamedDependency[Caller], if_match: IfMatch = None
) -> None:
    """Delete a job permanently, in any state; with `If-Match`, only if it has not changed."""
    job_queue, expected = await caller.job(queue, id, Permission.DELETE)
    await _require_match(caller, if_match, queue, expected)
    states = [expected.state] if has_specific_etag(if_match) else None
    if not await job_queue.purge(ids=[id], states=states, by=caller.by):
        _, now = await caller.job(queue, id, Permission.DELETE)
        await _require_match(caller, if_match, queue, now)
        raise JobNotFound(queue, id)


async def _document(caller: Caller, queue: str, record: Record) -> JobDocument:
    redacted = caller.principal.redact_job(record)
    return await caller.runtime.run_if_large(_size(redacted), lambda: job_document(redacted, queue))


async def _require_match(caller: Caller, if_match: str | None, queue: str, record: Record) -> None:
    if if_match is not None:
        await caller.runtime.run_if_large(
            _size(record), lambda: require_if_match(if_match, job_document(record, queue))
        )


def _size(record: Record) -> int:
    return sum(len(part or b"") for part in (record.payload, record.result, record.progress))


router = Router(
    "/queues/{queue:str}/jobs",
    route_handlers=[
        list_jobs,
        get_job,
        get_job_result,
        cancel_job,
        redrive_job,
        edit_job,
        move_job,
        delete_job,
    ],
    tags=["Jobs"],
)
