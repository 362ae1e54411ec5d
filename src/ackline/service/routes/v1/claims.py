"""Claims: jobs for workers in any language, from one queue or several, by request or stream."""

from __future__ import annotations

from typing import Annotated

import msgspec
from litestar import Router
from litestar.di import NamedDependency
from litestar.params import JSONBody, QueryParameter
from litestar.response import Stream

from ackline.core.limits import MAX_DELAY
from ackline.queue.transfer.documents import payload_json
from ackline.service.auth.caller import Caller
from ackline.service.auth.permissions import Permission
from ackline.service.delivery.claims import Claimer, ClaimOptions
from ackline.service.delivery.fair_share import Weights, queue_weights
from ackline.service.delivery.in_flight import InFlightJob
from ackline.service.delivery.job_stream import JobStream
from ackline.service.delivery.long_poll import claim_for_request
from ackline.service.delivery.settling import token_for_client
from ackline.service.http.parameters import (
    KindList,
    Prefetch,
    QueueNames,
    QueuePath,
    Seconds,
    WeightList,
)
from ackline.service.http.request_body import Body
from ackline.service.http.sse import sse_event, stream_response
from ackline.service.routes.decorators import get, post


class ClaimBody(Body):
    """How many jobs to claim, of which kinds, for how long, and how long to wait for them."""

    limit: Annotated[int, msgspec.Meta(ge=1)] = 1
    lease: Seconds | None = None
    wait: Annotated[float, msgspec.Meta(ge=0, le=60)] = 0.0
    kinds: Annotated[list[str], msgspec.Meta(max_length=1000)] | None = None
    worker: str | None = None


class MultiQueueClaimBody(ClaimBody, kw_only=True):
    """A claim from several queues, shared by their weights (default: equal)."""

    queues: list[str]
    weights: list[float] | None = None


class ClaimedJob(msgspec.Struct):
    """A leased job; send its token back with the outcome."""

    queue: str
    id: str
    kind: str
    payload: msgspec.Raw
    attempt: int
    token: str
    deadline: float
    priority: int
    created_at: float
    timeout: float | None
    headers: dict[str, str]
    trace: str | None


class ClaimedJobs(msgspec.Struct):
    """The claimed jobs."""

    jobs: list[ClaimedJob]


@post(
    "/queues/{queue:str}/claim",
    status_code=200,
    summary="Claim jobs",
    example={"limit": 10, "lease": 30, "wait": 20, "worker": "node-1"},
)
async def claim_jobs(
    queue: QueuePath, data: JSONBody[ClaimBody], caller: NamedDependency[Caller]
) -> ClaimedJobs:
    """Lease up to `limit` jobs, waiting up to `wait` seconds for the first.

    If you disconnect before the response is written, they are released. If the response is
    lost, its jobs return to the queue when their leases expire.
    """
    return await _claim(caller, queue_weights([queue], None), data)


@post(
    "/claims",
    status_code=200,
    summary="Claim jobs from several queues",
    example={"queues": ["billing", "email"], "weights": [3, 1], "limit": 10, "worker": "node-1"},
)
async def claim_jobs_from_queues(
    data: JSONBody[MultiQueueClaimBody], caller: NamedDependency[Caller]
) -> ClaimedJobs:
    """Lease up to `limit` jobs of these queues together, by their weights.

    No queue starves the others, and unused shares go to the others.
    """
    return await _claim(caller, queue_weights(data.queues, data.weights), data)


@get("/claims", summary="Claim jobs as a stream (SSE)", media_type="text/event-stream")
async def stream_claims(
    caller: NamedDependency[Caller],
    queues: QueueNames = None,
    weights: WeightList = None,
    prefetch: Prefetch = 10,
    kinds: KindList = None,
    lease: Annotated[
        float | None, QueryParameter(ge=0.001, le=MAX_DELAY, description="Lease in seconds.")
    ] = None,
) -> Stream:
    """A stream of `job` events, with `ping` events in between.

    Each job is leased until it is settled or its lease expires. When you disconnect, unsettled jobs
    are released; the one that you have had the longest loses an attempt, because it may have
    crashed you. Several queues share the prefetch window by their weights.
    """
    caller.require(Permission.CLAIM)
    options = ClaimOptions(lease=lease, kinds=caller.kinds(kinds), worker=caller.runtime.worker)
    claims = Claimer(caller, queue_weights(queues or [], weights), prefetch, options)
    caller.count_waiting_queues(claims.queue_count)
    return stream_response(JobStream(claims, prefetch, _job_event, caller.principal.until).events())


async def _claim(caller: Caller, weights: Weights, data: ClaimBody) -> ClaimedJobs:
    caller.require_batch(data.limit)
    options = ClaimOptions(lease=data.lease, kinds=caller.kinds(data.kinds), worker=data.worker)
    claims = Claimer(caller, weights, data.limit, options)
    return ClaimedJobs(await claim_for_request(caller, claims, data.limit, data.wait, _claimed))


def _claimed(sent: InFlightJob) -> ClaimedJob:
    job = sent.job
    return ClaimedJob(
        queue=sent.queue.name,
        id=job.id,
        kind=job.kind,
        payload=payload_json(job),
        attempt=job.attempts,
        token=token_for_client(job),
        deadline=job.deadline or 0.0,
        priority=job.priority,
        created_at=job.created_at,
        timeout=job.options.timeout,
        headers=dict(job.options.headers),
        trace=job.options.trace,
    )


_encode = msgspec.json.Encoder().encode


def _job_event(sent: InFlightJob) -> bytes:
    return sse_event("job", _encode(_claimed(sent)), sent.job.id)


router = Router(
    "/", route_handlers=[claim_jobs, claim_jobs_from_queues, stream_claims], tags=["Work"]
)
