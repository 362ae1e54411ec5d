"""Enqueues jobs, one or many in a request."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from litestar import Response, Router
from litestar.di import NamedDependency
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import JSONBody
from msgspec import UNSET, UnsetType

from ackline.core.errors import StoreError
from ackline.core.job import Record, State
from ackline.queue import Completed, Enqueued, EnqueueOptions, Queued
from ackline.queue.transfer.documents import raw_result_json
from ackline.service.auth.caller import Caller
from ackline.service.auth.permissions import Permission
from ackline.service.http.job_bodies import JobBody, trace_options
from ackline.service.http.parameters import QueuePath, Traceparent
from ackline.service.http.request_body import BatchBody
from ackline.service.limits.admission import admit_jobs
from ackline.service.operations.idempotency import IdempotencyKey, enqueue_many_once, enqueue_once
from ackline.service.queues import MeteredQueue
from ackline.service.routes.decorators import post
from ackline.service.runtime import Runtime


class EnqueuedDocument(msgspec.Struct):
    """The answer to an enqueue: accepted now, or existing before, possibly with its result.

    A result that is not JSON comes as `{"base64": …, "codec": …}`.
    """

    id: str
    accepted: bool
    state: State
    result: msgspec.Raw | UnsetType = UNSET


ALREADY_EXISTS = ResponseSpec(EnqueuedDocument, description="A job with this id already exists.")


class EnqueueBatchBody(BatchBody):
    """Many jobs to enqueue."""

    jobs: list[JobBody]


class EnqueuedBatch(msgspec.Struct):
    """One answer per job, in the same order."""

    jobs: list[EnqueuedDocument]


@post(
    "/",
    summary="Enqueue a job",
    responses={200: ALREADY_EXISTS},
    problems=(409,),
    example={"payload": {"to": "ann@example.com"}, "id": "email-123", "kind": "welcome"},
)
async def enqueue_job(
    queue: QueuePath,
    data: JSONBody[JobBody],
    caller: NamedDependency[Caller],
    idempotency_key: IdempotencyKey = None,
    traceparent: Traceparent = None,
) -> Response[EnqueuedDocument]:
    """Enqueue a job: 201 if it is new, 200 if a job with its id already exists."""
    job_queue = await _queue_for_enqueue(caller, queue, [data])
    options: EnqueueOptions = {**trace_options(traceparent), **data.for_enqueue()}
    async with admit_jobs(caller.runtime, job_queue, 1, _ids([data])):
        answer = await enqueue_once(caller, job_queue, data.value, options, idempotency_key)
    [document] = await _documents(caller, job_queue, [answer])
    return Response(document, status_code=201 if document.accepted else 200)


@post(
    "/batch",
    status_code=200,
    summary="Enqueue many jobs",
    problems=(409,),
    example={"jobs": [{"payload": 1, "id": "a"}, {"payload": 2, "priority": 9}]},
)
async def enqueue_jobs(
    queue: QueuePath,
    data: JSONBody[EnqueueBatchBody],
    caller: NamedDependency[Caller],
    idempotency_key: IdempotencyKey = None,
    traceparent: Traceparent = None,
) -> EnqueuedBatch:
    """Enqueue all new jobs in one step; if one is refused, none is stored."""
    caller.require_batch(len(data.jobs))
    job_queue = await _queue_for_enqueue(caller, queue, data.jobs)
    async with admit_jobs(caller.runtime, job_queue, len(data.jobs), _ids(data.jobs)):
        new = [job.new_job(trace_options(traceparent)) for job in data.jobs]
        answers = await enqueue_many_once(caller, job_queue, new, idempotency_key)
    return EnqueuedBatch(await _documents(caller, job_queue, answers))


async def _queue_for_enqueue(caller: Caller, queue: str, jobs: list[JobBody]) -> MeteredQueue:
    for job in jobs:
        caller.require_kind(job.kind if isinstance(job.kind, str) else "default")
        keys = job.keys_if_undelivered
        caller.require_undelivered_keys(keys if isinstance(keys, list) else ())
    job_queue = caller.queue(queue, Permission.ENQUEUE)
    await caller.require_replaceable(job_queue, _ids(jobs))
    return job_queue


def _ids(jobs: list[JobBody]) -> list[str]:
    return [job.id for job in jobs if isinstance(job.id, str)]


async def _documents(
    caller: Caller, queue: MeteredQueue, answers: Sequence[Enqueued]
) -> list[EnqueuedDocument]:
    results = await _results(caller, queue, answers)
    return [
        EnqueuedDocument(
            answer.id, isinstance(answer, Queued), answer.state, results.get(answer.id, UNSET)
        )
        for answer in answers
    ]


async def _results(
    caller: Caller, job_queue: MeteredQueue, answers: Sequence[Enqueued]
) -> dict[str, msgspec.Raw]:
    completed = {answer.id: answer.result for answer in answers if isinstance(answer, Completed)}
    if not completed:
        return {}
    jobs = await _jobs(caller.runtime, job_queue, list(completed))
    codecs = {id: job.options.codec for id, job in jobs.items()}
    # The existing job may be of a kind that the caller may not access.
    hidden = {id for id, job in jobs.items() if not caller.principal.can_see(job)}
    if caller.principal.kinds is not None:
        hidden |= completed.keys() - jobs.keys()
    return {
        id: raw_result_json(result, codecs.get(id))
        for id, result in completed.items()
        if id not in hidden
    }


async def _jobs(runtime: Runtime, job_queue: MeteredQueue, ids: list[str]) -> dict[str, Record]:
    """The jobs that still exist."""
    try:
        found = await runtime.call(runtime.store.get, job_queue.sync.key, ids)
    except StoreError:
        # Other jobs of this request are stored, so it must not fail.
        return {}
    return {job.id: job for job in found if job is not None}


PATH = "/queues/{queue:str}/jobs"
router = Router(PATH, route_handlers=[enqueue_job], tags=["Jobs"])
batch_router = Router(PATH, route_handlers=[enqueue_jobs], tags=["Jobs"])
