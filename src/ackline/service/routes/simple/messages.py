"""Messages: enqueue, listen or poll, and acknowledge or reject."""

from __future__ import annotations

from typing import Annotated

import msgspec
from litestar import Router
from litestar.di import NamedDependency
from litestar.params import JSONBody, QueryParameter
from litestar.response import Stream

from ackline.core.errors import LeaseLost
from ackline.core.job import State
from ackline.queue import EnqueueOptions, Queued
from ackline.service.auth.caller import Caller
from ackline.service.auth.guard import NEVER_RATE_LIMITED
from ackline.service.auth.permissions import Permission
from ackline.service.delivery.claims import Claimer, ClaimOptions
from ackline.service.delivery.fair_share import queue_weights
from ackline.service.delivery.in_flight import InFlightJob
from ackline.service.delivery.job_stream import JobStream
from ackline.service.delivery.long_poll import claim_for_request
from ackline.service.delivery.settling import LeaseHandle
from ackline.service.http.job_bodies import trace_options
from ackline.service.http.parameters import (
    Ok,
    Prefetch,
    QueueName,
    QueueNames,
    Traceparent,
    WeightList,
)
from ackline.service.http.problems import Unprocessable
from ackline.service.http.request_body import none_if_null
from ackline.service.http.sse import sse_event, stream_response
from ackline.service.limits.admission import admit_jobs
from ackline.service.operations.idempotency import IdempotencyKey, enqueue_once
from ackline.service.routes.decorators import get, post
from ackline.service.routes.simple.bodies import (
    DEFAULT_QUEUE,
    AckBody,
    EnqueuedMessage,
    MessageBody,
    MessageCounts,
    NackBody,
    PollResult,
    TouchBody,
    existing_or_default_queue,
    message_document,
    to_seconds,
)

Kinds = Annotated[
    str | None, QueryParameter(description="Only messages of these kinds, separated by commas.")
]


@post(
    "/enqueue",
    status_code=200,
    summary="Enqueue a message",
    problems=(409,),
    example={
        "value": {"to": "ann@example.com", "subject": "Welcome"},
        "options": {"delay": 1000, "backoffSchedule": [1000, 5000, 30000]},
    },
)
async def enqueue_message(
    data: JSONBody[MessageBody],
    caller: NamedDependency[Caller],
    queue: QueueName = DEFAULT_QUEUE,
    idempotency_key: IdempotencyKey = None,
    traceparent: Traceparent = None,
) -> EnqueuedMessage:
    """Enqueue a message. A response means that it is stored as durably as the store allows."""
    name = data.options.queue or queue
    if queue not in (DEFAULT_QUEUE, name):
        raise Unprocessable(f"the query has queue {queue!r}, the options have {name!r}", at="queue")
    options: EnqueueOptions = {**trace_options(traceparent), **data.options.for_enqueue()}
    caller.require_kind(options.get("kind", "default"))
    caller.require_undelivered_keys(data.options.keys_if_undelivered)
    job_queue = caller.queue(name, Permission.ENQUEUE)
    ids = [data.options.id] if data.options.id else []
    await caller.require_replaceable(job_queue, ids)
    async with admit_jobs(caller.runtime, job_queue, 1, ids):
        answer = await enqueue_once(caller, job_queue, data.value, options, idempotency_key)
    if isinstance(answer, Queued):
        return EnqueuedMessage(True, answer.id)
    return EnqueuedMessage(True, answer.id, duplicate=True, state=answer.state)


@get("/listen", summary="Listen for messages (SSE)", media_type="text/event-stream")
async def listen_for_messages(
    caller: NamedDependency[Caller],
    queues: QueueNames = None,
    weights: WeightList = None,
    prefetch: Prefetch = 10,
    kinds: Kinds = None,
) -> Stream:
    """A stream of `message` events, with `ping` events in between.

    Each message is locked for this client until it is acknowledged, rejected, or its lock expires.
    When you disconnect, unacknowledged messages return to the queue; the one that you have had the
    longest loses an attempt, because it may have crashed you.
    Several queues share the prefetch window by their weights, so that none starves the others.
    """
    claims = _claimer(caller, queues, weights, prefetch, kinds, caller.runtime.worker)
    caller.count_waiting_queues(claims.queue_count)
    stream = JobStream(claims, prefetch, _message_event, caller.principal.until)
    return stream_response(stream.events())


@get("/poll", summary="Poll for the next message")
async def poll_message(
    caller: NamedDependency[Caller],
    queues: QueueNames = None,
    weights: WeightList = None,
    wait: Annotated[
        float, QueryParameter(ge=0, le=60, description="Maximum seconds to wait for a message.")
    ] = 0.0,
    kinds: Kinds = None,
) -> PollResult:
    """The next message, locked for the caller; null if there is none.

    Of several queues, the one that got the least for its weight is next, counting all clients that
    poll the same queues with the same weights. If you disconnect before the response is written,
    the message returns to the queue; if the response is lost, it returns when its lock expires.
    """
    claims = _claimer(caller, queues, weights, 1, kinds)
    messages = await claim_for_request(caller, claims, 1, wait, message_document)
    return PollResult(messages[0] if messages else None)


@post(
    "/ack",
    status_code=200,
    summary="Acknowledge a message",
    opt=NEVER_RATE_LIMITED,
    problems=(404, 409),
    example={"id": "email-123", "receipt": "1794835219916151"},
)
async def ack_message(data: JSONBody[AckBody], caller: NamedDependency[Caller]) -> Ok:
    """Acknowledge a message: it was processed, and leaves the queue."""
    queue = caller.queue(data.queue, Permission.SETTLE)
    try:
        lease = await LeaseHandle.find(caller, queue, data.id, data.receipt)
    except LeaseLost as lost:
        if lost.state is State.COMPLETED:
            return Ok()  # sent again
        raise
    await lease.settle(queue.complete(lease.job, none_if_null(data.result)))
    return Ok()


@post(
    "/nack",
    status_code=200,
    summary="Reject a message",
    opt=NEVER_RATE_LIMITED,
    problems=(404, 409),
    example={"id": "email-123", "error": "connection refused", "delay": 60000},
)
async def nack_message(data: JSONBody[NackBody], caller: NamedDependency[Caller]) -> Ok:
    """Reject a message: it is retried after its backoff or this delay, or goes to the DLQ."""
    queue = caller.queue(data.queue, Permission.SETTLE)
    lease = await LeaseHandle.find(caller, queue, data.id, data.receipt)
    await lease.settle(queue.fail(lease.job, data.error, delay=to_seconds(data.delay)))
    return Ok()


@post(
    "/touch",
    status_code=200,
    summary="Extend the lock of a message",
    opt=NEVER_RATE_LIMITED,
    problems=(404, 409),
    example={"id": "email-123", "duration": 60000},
)
async def touch_message(data: JSONBody[TouchBody], caller: NamedDependency[Caller]) -> Ok:
    """Extend the lock to `duration` from now (default: that of a new lock)."""
    queue = caller.queue(data.queue, Permission.SETTLE)
    lease = await LeaseHandle.find(caller, queue, data.id, data.receipt)
    seconds = to_seconds(data.duration) or await lease.default_lease(queue)
    await lease.extend(queue.extend(lease.job, seconds), seconds)
    return Ok()


@get("/stats", summary="Count the messages", problems=(404,))
async def count_messages(
    caller: NamedDependency[Caller], queue: QueueName = DEFAULT_QUEUE
) -> MessageCounts:
    """How many messages are waiting, in progress and in the DLQ."""
    counts = await (await existing_or_default_queue(caller, queue, Permission.READ_QUEUES)).counts()
    waiting = (State.QUEUED, State.SCHEDULED, State.FAILING)
    pending = sum(counts[state] for state in waiting)
    processing, dead = counts[State.PROCESSING], counts[State.FAILED]
    return MessageCounts(pending, processing, dead, pending + processing + dead)


def _claimer(
    caller: Caller,
    queues: list[str] | None,
    weights: list[float] | None,
    max_jobs: int,
    kinds: str | None,
    worker: str | None = None,
) -> Claimer:
    options = ClaimOptions(kinds=caller.kinds(_split(kinds)), worker=worker)
    return Claimer(caller, queue_weights(queues or [DEFAULT_QUEUE], weights), max_jobs, options)


_encode = msgspec.json.Encoder().encode


def _message_event(sent: InFlightJob) -> bytes:
    return sse_event("message", _encode(message_document(sent)), sent.job.id)


def _split(text: str | None) -> list[str] | None:
    return [word for word in (text or "").split(",") if word] or None


router = Router(
    "/queue",
    route_handlers=[
        enqueue_message,
        listen_for_messages,
        poll_message,
        ack_message,
        nack_message,
        touch_message,
        count_messages,
    ],
    tags=["Messages"],
)
