"""Messages: enqueue them, listen or poll for them, and say what became of them."""

from __future__ import annotations

from typing import Annotated, Any, cast

import msgspec
from litestar import Router, get, post
from litestar.di import NamedDependency
from litestar.params import JSONBody, QueryParameter
from litestar.response import Stream
from msgspec import UNSET, UnsetType

from ackline.errors import LeaseLost
from ackline.job import Record, State
from ackline.queue import EnqueueOptions, Queued
from ackline.service.bodies import Body
from ackline.service.caller import Caller, Scope
from ackline.service.documents import payload_of
from ackline.service.handing_out import Claims, Feed, hand_out
from ackline.service.idempotency import IdempotencyKey, enqueue_once
from ackline.service.job_bodies import traced
from ackline.service.parameters import Traceparent
from ackline.service.settling import Lease, receipt_of
from ackline.service.streams import event, stream_response

DEFAULT_QUEUE = "default"

Milliseconds = Annotated[float, msgspec.Meta(ge=0, le=315_360_000_000)]

QueueName = Annotated[str, QueryParameter(description="Which queue.", min_length=1, max_length=512)]
Kinds = Annotated[
    str | None, QueryParameter(description="Only messages of these kinds, separated by commas.")
]


class MessageOptions(Body, rename="camel"):
    """How a message is delivered; times are in milliseconds."""

    id: str | None = None
    queue: str | None = None
    kind: str | None = None
    priority: Annotated[int, msgspec.Meta(ge=0, le=9)] | None = None
    delay: Milliseconds | None = None
    backoff_schedule: list[Milliseconds] | None = None
    keys_if_undelivered: list[list[str]] | None = None
    callback_url: str | None = None
    max_attempts: int | None = None
    lock_duration: Milliseconds | None = None
    group: str | None = None
    headers: dict[str, str] | None = None

    def for_enqueue(self) -> EnqueueOptions:
        """The same for the library, whose times are in seconds."""
        said: dict[str, Any] = {
            "id": self.id,
            "kind": self.kind,
            "priority": self.priority,
            "delay": _seconds(self.delay),
            "backoff": self.backoff_schedule and [wait / 1000 for wait in self.backoff_schedule],
            "keys_if_undelivered": self.keys_if_undelivered,
            "callback_url": self.callback_url,
            "max_attempts": self.max_attempts,
            "lease": _seconds(self.lock_duration),
            "group": self.group,
            "headers": self.headers,
        }
        if self.backoff_schedule == []:
            said["max_attempts"] = self.max_attempts or 1
        given = {name: value for name, value in said.items() if value not in (None, [])}
        return cast(EnqueueOptions, given)


class NewMessage(Body):
    """A message to be enqueued."""

    value: Any
    options: MessageOptions = msgspec.field(default_factory=MessageOptions)


class Accepted(msgspec.Struct):
    """The message is stored; `duplicate` says that it was so before."""

    ok: bool
    id: str
    duplicate: bool | UnsetType = UNSET
    state: State | UnsetType = UNSET


class Message(msgspec.Struct):
    """A message in its consumer's hands; `receipt` says which delivery it is."""

    id: str
    value: msgspec.Raw
    attempts: int
    kind: str
    receipt: str


class Polled(msgspec.Struct):
    """The next message, or null if there is none."""

    message: Message | None


class Done(msgspec.Struct):
    """It was done."""

    ok: bool = True


class Stats(msgspec.Struct):
    """How many messages there are."""

    pending: int
    processing: int
    dlq: int
    total: int


class Settle(Body):
    """Which message; with its receipt, in this delivery only."""

    id: str
    receipt: str | None = None
    queue: str = DEFAULT_QUEUE


class Ack(Settle):
    """A message that was dealt with."""

    result: Any = None


class Nack(Settle):
    """A message that could not be dealt with, why, and when to try again."""

    error: str = "rejected by its consumer"
    delay: Milliseconds | None = None


class Touch(Settle):
    """A message that needs more time, and how much from now on."""

    duration: Milliseconds | None = None


@post("/enqueue", status_code=200, summary="Enqueue a message")
async def enqueue(
    data: JSONBody[NewMessage],
    caller: NamedDependency[Caller],
    queue: QueueName = DEFAULT_QUEUE,
    idempotency_key: IdempotencyKey = None,
    traceparent: Traceparent = None,
) -> Accepted:
    """Store a message. When this answers, it is as safe as the store makes it."""
    name = data.options.queue or queue
    options: EnqueueOptions = {**traced(traceparent), **data.options.for_enqueue()}
    caller.require_kind(options.get("kind", "default"))
    line = caller.queue(name, Scope.PRODUCE)
    async with caller.admitting(line, 1):
        answer = await enqueue_once(caller.runtime, line, data.value, options, idempotency_key)
    if isinstance(answer, Queued):
        return Accepted(True, answer.id)
    return Accepted(True, answer.id, duplicate=True, state=answer.state)


@get("/listen", summary="Listen for messages (SSE)", media_type="text/event-stream")
async def listen(
    caller: NamedDependency[Caller],
    queue: QueueName = DEFAULT_QUEUE,
    prefetch: Annotated[
        int, QueryParameter(ge=1, le=1000, description="So many may be unacknowledged at once.")
    ] = 10,
    kinds: Kinds = None,
) -> Stream:
    """A stream of `message` events, and `ping` when there are none.

    Each message is locked for this consumer until it is acknowledged, rejected, or its lock
    lapses. When the connection ends, what is not acknowledged goes back into the queue.
    """
    line = caller.queue(queue, Scope.CONSUME)
    worker = caller.runtime.worker
    claims = Claims(caller.runtime, line, kinds=caller.kinds(_words(kinds)), worker=worker)
    feed = Feed(claims, prefetch, _message_event, caller.principal.until)
    return stream_response(feed.events())


@get("/poll", summary="Take the next message")
async def poll(
    caller: NamedDependency[Caller],
    queue: QueueName = DEFAULT_QUEUE,
    wait: Annotated[
        float, QueryParameter(ge=0, le=60, description="Seconds to wait for a message.")
    ] = 0.0,
    kinds: Kinds = None,
) -> Polled:
    """The next message, locked for the caller; null if there is none."""
    line = caller.queue(queue, Scope.CONSUME)
    claims = Claims(caller.runtime, line, kinds=caller.kinds(_words(kinds)))
    jobs = await hand_out(claims, 1, wait, caller.receive)
    return Polled(message_of(jobs[0]) if jobs else None)


@post("/ack", status_code=200, summary="Acknowledge a message")
async def ack(data: JSONBody[Ack], caller: NamedDependency[Caller]) -> Done:
    """The message was dealt with, and leaves the queue."""
    queue = caller.queue(data.queue, Scope.CONSUME)
    try:
        lease = await Lease.find(caller, queue, data.id, data.receipt)
    except LeaseLost as lost:
        if lost.state is State.COMPLETED:
            return Done()  # sent again
        raise
    await queue.complete(lease.job, data.result)
    lease.ended()
    return Done()


@post("/nack", status_code=200, summary="Reject a message")
async def nack(data: JSONBody[Nack], caller: NamedDependency[Caller]) -> Done:
    """The message is tried again after its backoff or this delay, or goes to the DLQ."""
    queue = caller.queue(data.queue, Scope.CONSUME)
    lease = await Lease.find(caller, queue, data.id, data.receipt)
    await queue.fail(lease.job, data.error, delay=_seconds(data.delay))
    lease.ended()
    return Done()


@post("/touch", status_code=200, summary="Hold a message for longer")
async def touch(data: JSONBody[Touch], caller: NamedDependency[Caller]) -> Done:
    """The lock runs from now on, for this duration or for as long as before."""
    queue = caller.queue(data.queue, Scope.CONSUME)
    lease = await Lease.find(caller, queue, data.id, data.receipt)
    seconds = _seconds(data.duration) or await lease.usual_span(queue)
    await queue.extend(lease.job, seconds)
    lease.extended(seconds)
    return Done()


@get("/stats", summary="Count the messages")
async def stats(caller: NamedDependency[Caller], queue: QueueName = DEFAULT_QUEUE) -> Stats:
    """How many messages wait, are being processed, and were given up."""
    counts = await caller.queue(queue, Scope.READ).counts()
    waiting = (State.QUEUED, State.SCHEDULED, State.FAILING)
    pending = sum(counts[state] for state in waiting)
    processing, dead = counts[State.PROCESSING], counts[State.FAILED]
    return Stats(pending, processing, dead, pending + processing + dead)


def message_of(record: Record) -> Message:
    """A job as its consumer gets it."""
    return Message(record.id, payload_of(record), record.attempts, record.kind, receipt_of(record))


_encode = msgspec.json.Encoder().encode


def _message_event(record: Record) -> bytes:
    return event("message", _encode(message_of(record)), record.id)


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def _words(text: str | None) -> list[str] | None:
    return None if text is None else [word for word in text.split(",") if word]


router = Router(
    "/queue", route_handlers=[enqueue, listen, poll, ack, nack, touch, stats], tags=["Messages"]
)
