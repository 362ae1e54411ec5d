"""Jobs put in, one or many in a request."""

from __future__ import annotations

from typing import Any

import msgspec
from litestar import Response, Router, post
from litestar.di import NamedDependency
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import JSONBody
from msgspec import UNSET, UnsetType

from ackline.job import State
from ackline.queue import Completed, Enqueued, EnqueueOptions, Queued
from ackline.service.admission import admitting
from ackline.service.bodies import ManyBody
from ackline.service.caller import Caller, Scope
from ackline.service.idempotency import IdempotencyKey, enqueue_many_once, enqueue_once
from ackline.service.job_bodies import JobBody, traced
from ackline.service.parameters import Queue, Traceparent
from ackline.service.served_queue import ServedQueue


class EnqueuedDocument(msgspec.Struct):
    """What became of an enqueue: accepted now, or there before, perhaps with its result."""

    id: str
    accepted: bool
    state: State
    result: Any | UnsetType = UNSET


THERE = ResponseSpec(EnqueuedDocument, description="A job of this id is there already.")


class Batch(ManyBody):
    """Many jobs to be enqueued."""

    jobs: list[JobBody]


class EnqueuedBatch(msgspec.Struct):
    """One answer for each job, in the same order."""

    jobs: list[EnqueuedDocument]


@post("/", summary="Enqueue a job", responses={200: THERE})
async def enqueue(
    queue: Queue,
    data: JSONBody[JobBody],
    caller: NamedDependency[Caller],
    idempotency_key: IdempotencyKey = None,
    traceparent: Traceparent = None,
) -> Response[EnqueuedDocument]:
    """Store a job: 201 if it is new, 200 if a job of its id is there already."""
    line = await _producing(caller, queue, [data])
    options: EnqueueOptions = {**traced(traceparent), **data.for_enqueue()}
    async with admitting(caller.runtime, line, 1, _ids([data])):
        answer = await enqueue_once(caller, line, data.value, options, idempotency_key)
    return Response(
        _enqueued(caller, answer), status_code=201 if isinstance(answer, Queued) else 200
    )


@post("/batch", status_code=200, summary="Enqueue many jobs")
async def enqueue_many(
    queue: Queue,
    data: JSONBody[Batch],
    caller: NamedDependency[Caller],
    idempotency_key: IdempotencyKey = None,
    traceparent: Traceparent = None,
) -> EnqueuedBatch:
    """Store all new ones in one step; if one is refused, none is stored."""
    caller.require_batch(len(data.jobs))
    line = await _producing(caller, queue, data.jobs)
    async with admitting(caller.runtime, line, len(data.jobs), _ids(data.jobs)):
        new = [job.new_job(traced(traceparent)) for job in data.jobs]
        answers = await enqueue_many_once(caller, line, new, idempotency_key)
    return EnqueuedBatch([_enqueued(caller, answer) for answer in answers])


async def _producing(caller: Caller, queue: str, jobs: list[JobBody]) -> ServedQueue:
    for job in jobs:
        caller.require_kind(job.kind if isinstance(job.kind, str) else "default")
        keys = job.keys_if_undelivered
        caller.require_keys(keys if isinstance(keys, list) else ())
    line = caller.queue(queue, Scope.PRODUCE)
    await caller.require_own(line, _ids(jobs))
    return line


def _ids(jobs: list[JobBody]) -> list[str]:
    return [job.id for job in jobs if isinstance(job.id, str)]


def _enqueued(caller: Caller, answer: Enqueued) -> EnqueuedDocument:
    # The job of this id may be of a kind whose results are not for the caller.
    told = caller.principal.kinds is None
    result = answer.result if told and isinstance(answer, Completed) else UNSET
    return EnqueuedDocument(answer.id, isinstance(answer, Queued), answer.state, result)


PATH = "/queues/{queue:str}/jobs"
router = Router(PATH, route_handlers=[enqueue], tags=["Jobs"])
batch_router = Router(PATH, route_handlers=[enqueue_many], tags=["Jobs"])
