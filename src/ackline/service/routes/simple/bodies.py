"""Messages as the simple routes take and show them; their times are in milliseconds."""

from __future__ import annotations

from typing import Annotated, Any, cast

import msgspec
from msgspec import UNSET, UnsetType

from ackline.core.job import State
from ackline.queue import EnqueueOptions
from ackline.queue.transfer.documents import payload_json
from ackline.service.auth.caller import Caller
from ackline.service.auth.permissions import Permission
from ackline.service.delivery.in_flight import InFlightJob
from ackline.service.delivery.settling import token_for_client
from ackline.service.http.request_body import Body
from ackline.service.queues import MeteredQueue

DEFAULT_QUEUE = "default"

Milliseconds = Annotated[float, msgspec.Meta(ge=0, le=315_360_000_000)]


class MessageOptions(Body, rename="camel"):
    """How a message is delivered; times are in milliseconds."""

    id: str | None = None
    queue: Annotated[str, msgspec.Meta(min_length=1)] | None = None
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
    tags: list[str] | None = None

    def for_enqueue(self) -> EnqueueOptions:
        """The options for `Queue.enqueue`, with times in seconds."""
        options: dict[str, Any] = {
            "id": self.id,
            "kind": self.kind,
            "priority": self.priority,
            "delay": to_seconds(self.delay),
            "backoff": self.backoff_schedule and [wait / 1000 for wait in self.backoff_schedule],
            "keys_if_undelivered": self.keys_if_undelivered,
            "callback_url": self.callback_url,
            "max_attempts": self.max_attempts,
            "lease": to_seconds(self.lock_duration),
            "group": self.group,
            "headers": self.headers,
            "tags": self.tags,
        }
        if self.backoff_schedule == []:
            options["max_attempts"] = self.max_attempts or 1
        given = {name: value for name, value in options.items() if value not in (None, [])}
        return cast(EnqueueOptions, given)


class MessageBody(Body):
    """A message to enqueue."""

    value: msgspec.Raw
    options: MessageOptions = msgspec.field(default_factory=MessageOptions)


class EnqueuedMessage(msgspec.Struct):
    """The message is stored; with `duplicate`, it was stored before."""

    ok: bool
    id: str
    duplicate: bool | UnsetType = UNSET
    state: State | UnsetType = UNSET


class Message(msgspec.Struct):
    """A leased message; `receipt` identifies this delivery."""

    id: str
    value: msgspec.Raw
    attempts: int
    kind: str
    receipt: str
    queue: str


class PollResult(msgspec.Struct):
    """The next message, or null if there is none."""

    message: Message | None


class MessageCounts(msgspec.Struct):
    """Numbers of messages."""

    pending: int
    processing: int
    dlq: int
    total: int


class SettleMessageBody(Body):
    """Which message; with its receipt, only this delivery of it."""

    id: str
    receipt: str | None = None
    queue: str = DEFAULT_QUEUE


class AckBody(SettleMessageBody):
    """A message that was processed."""

    result: msgspec.Raw | UnsetType = UNSET


class NackBody(SettleMessageBody):
    """A message that failed: why, and when to retry."""

    error: str = "rejected by its consumer"
    delay: Milliseconds | None = None


class TouchBody(SettleMessageBody):
    """A message that needs more time, and how much from now."""

    duration: Annotated[float, msgspec.Meta(gt=0, le=86_400_000)] | None = None


def to_seconds(milliseconds: float | None) -> float | None:
    """Convert to seconds."""
    return None if milliseconds is None else milliseconds / 1000


def message_document(sent: InFlightJob) -> Message:
    """A job as the message that a client gets."""
    job = sent.job
    return Message(
        id=job.id,
        value=payload_json(job),
        attempts=job.attempts,
        kind=job.kind,
        receipt=token_for_client(job),
        queue=sent.queue.name,
    )


async def existing_or_default_queue(
    caller: Caller, name: str, permission: Permission
) -> MeteredQueue:
    """An existing queue, or the default one, which always exists."""
    if name == DEFAULT_QUEUE:
        return caller.queue(name, permission)
    return await caller.existing_queue(name, permission)
