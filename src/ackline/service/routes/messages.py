"""Messages: enqueue them, listen or poll for them, and say what became of them."""

from __future__ import annotations

from typing import Annotated

import msgspec
from litestar import Router
from litestar.di import NamedDependency
from litestar.params import JSONBody, QueryParameter
from litestar.response import Stream

from ackline.errors import LeaseLost
from ackline.job import State
from ackline.queue import EnqueueOptions, Queued
from ackline.service.admission import admitting
from ackline.service.auth.authorization import Access
from ackline.service.auth.caller import Caller
from ackline.service.auth.guard import SETTLES
from ackline.service.bodies import unless_null
from ackline.service.claims import Claims
from ackline.service.default_queue import known_queue
from ackline.service.fair_shares import weighted
from ackline.service.feed import Feed
from ackline.service.handing_out import hand_out
from ackline.service.handlers import get, post
from ackline.service.held import Handed
from ackline.service.idempotency import IdempotencyKey, enqueue_once
from ackline.service.job_bodies import traced
from ackline.service.message_bodies import (
    DEFAULT_QUEUE,
    Accepted,
    Ack,
    Done,
    Nack,
    NewMessage,
    Polled,
    Stats,
    Touch,
    in_seconds,
    message_of,
)
from ackline.service.parameters import Prefetch, QueueName, QueueNames, Traceparent, WeightList
from ackline.service.problems import Unfit
from ackline.service.settling import Lease
from ackline.service.source import Wish
from ackline.service.streams import event, stream_response

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
async def enqueue(
    data: JSONBody[NewMessage],
    caller: NamedDependency[Caller],
    queue: QueueName = DEFAULT_QUEUE,
    idempotency_key: IdempotencyKey = None,
    traceparent: Traceparent = None,
) -> Accepted:
    """Store a message. When this answers, it is as safe as the store makes it."""
    name = data.options.queue or queue
    if queue not in (DEFAULT_QUEUE, name):
        raise Unfit(f"the query says queue {queue!r}, the options say {name!r}", at="queue")
    options: EnqueueOptions = {**traced(traceparent), **data.options.for_enqueue()}
    caller.require_kind(options.get("kind", "default"))
    caller.require_keys(data.options.keys_if_undelivered)
    line = caller.queue(name, Access.ENQUEUE)
    ids = [data.options.id] if data.options.id else []
    await caller.require_own(line, ids)
    async with admitting(caller.runtime, line, 1, ids):
        answer = await enqueue_once(caller, line, data.value, options, idempotency_key)
    if isinstance(answer, Queued):
        return Accepted(True, answer.id)
    return Accepted(True, answer.id, duplicate=True, state=answer.state)


@get("/listen", summary="Listen for messages (SSE)", media_type="text/event-stream")
async def listen(
    caller: NamedDependency[Caller],
    queues: QueueNames = None,
    weights: WeightList = None,
    prefetch: Prefetch = 10,
    kinds: Kinds = None,
) -> Stream:
    """A stream of `message` events, and `ping` when there are none.

    Each message is locked for this consumer until it is acknowledged, rejected, or its lock
    lapses. When you close the connection, what is not acknowledged goes back into the queue; what
    you have had the longest has cost an attempt, because it may have crashed you.
    Several queues share the window by their weights: one with much to do starves no other.
    """
    claims = _claims(caller, queues, weights, prefetch, kinds, caller.runtime.worker)
    caller.will_wait_for(claims.names)
    feed = Feed(claims, prefetch, _message_event, caller.principal.until)
    return stream_response(feed.events())


@get("/poll", summary="Take the next message")
async def poll(
    caller: NamedDependency[Caller],
    queues: QueueNames = None,
    weights: WeightList = None,
    wait: Annotated[
        float, QueryParameter(ge=0, le=60, description="Seconds to wait for a message.")
    ] = 0.0,
    kinds: Kinds = None,
) -> Polled:
    """The next message, locked for the caller; null if there is none.

    Of several queues, the next is the one that got the least by its weight, counting all clients
    that poll the same queues with the same weights. If you leave before the answer is written, the
    message goes back into the queue; if the answer is lost on its way, when its lock lapses.
    """
    claims = _claims(caller, queues, weights, 1, kinds)
    messages = await hand_out(caller, claims, 1, wait, message_of)
    return Polled(messages[0] if messages else None)


@post(
    "/ack",
    status_code=200,
    summary="Acknowledge a message",
    opt=SETTLES,
    problems=(
        404,
        409,
    ),
    example={"id": "email-123", "receipt": "1794835219916151"},
)
async def ack(data: JSONBody[Ack], caller: NamedDependency[Caller]) -> Done:
    """The message was dealt with, and leaves the queue."""
    queue = caller.queue(data.queue, Access.SETTLE)
    try:
        lease = await Lease.find(caller, queue, data.id, data.receipt)
    except LeaseLost as lost:
        if lost.state is State.COMPLETED:
            return Done()  # sent again
        raise
    await lease.end(queue.complete(lease.job, unless_null(data.result)))
    return Done()


@post(
    "/nack",
    status_code=200,
    summary="Reject a message",
    opt=SETTLES,
    problems=(
        404,
        409,
    ),
    example={"id": "email-123", "error": "connection refused", "delay": 60000},
)
async def nack(data: JSONBody[Nack], caller: NamedDependency[Caller]) -> Done:
    """The message is tried again after its backoff or this delay, or goes to the DLQ."""
    queue = caller.queue(data.queue, Access.SETTLE)
    lease = await Lease.find(caller, queue, data.id, data.receipt)
    await lease.end(queue.fail(lease.job, data.error, delay=in_seconds(data.delay)))
    return Done()


@post(
    "/touch",
    status_code=200,
    summary="Hold a message for longer",
    opt=SETTLES,
    problems=(
        404,
        409,
    ),
    example={"id": "email-123", "duration": 60000},
)
async def touch(data: JSONBody[Touch], caller: NamedDependency[Caller]) -> Done:
    """The lock runs from now on, for this duration or for as long as before."""
    queue = caller.queue(data.queue, Access.SETTLE)
    lease = await Lease.find(caller, queue, data.id, data.receipt)
    seconds = in_seconds(data.duration) or await lease.usual_span(queue)
    await lease.extend(queue.extend(lease.job, seconds), seconds)
    return Done()


@get("/stats", summary="Count the messages", problems=(404,))
async def stats(caller: NamedDependency[Caller], queue: QueueName = DEFAULT_QUEUE) -> Stats:
    """How many messages wait, are being processed, and were given up."""
    counts = await (await known_queue(caller, queue, Access.READ_QUEUES)).counts()
    waiting = (State.QUEUED, State.SCHEDULED, State.FAILING)
    pending = sum(counts[state] for state in waiting)
    processing, dead = counts[State.PROCESSING], counts[State.FAILED]
    return Stats(pending, processing, dead, pending + processing + dead)


def _claims(
    caller: Caller,
    queues: list[str] | None,
    weights: list[float] | None,
    most: int,
    kinds: str | None,
    worker: str | None = None,
) -> Claims:
    wish = Wish(kinds=caller.kinds(_words(kinds)), worker=worker)
    return Claims(caller, weighted(queues or [DEFAULT_QUEUE], weights), most, wish)


_encode = msgspec.json.Encoder().encode


def _message_event(handed: Handed) -> bytes:
    return event("message", _encode(message_of(handed)), handed.job.id)


def _words(text: str | None) -> list[str] | None:
    return [word for word in (text or "").split(",") if word] or None


router = Router(
    "/queue", route_handlers=[enqueue, listen, poll, ack, nack, touch, stats], tags=["Messages"]
)
