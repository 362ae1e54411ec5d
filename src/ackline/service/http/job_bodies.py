"""Jobs and policies as clients send them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec
from msgspec import UNSET, UnsetType

from ackline.core.config import Policy
from ackline.core.retry import Backoff, Jitter, Shape, backoff_from
from ackline.queue import EnqueueOptions, NewJob, tracing
from ackline.service.http.parameters import Priority, Seconds
from ackline.service.http.problems import Unprocessable
from ackline.service.http.request_body import Body, none_if_null


class BackoffBody(Body):
    """How long to wait between attempts."""

    shape: Shape
    base: Seconds = 0.0
    factor: Seconds = 2.0
    cap: Seconds = 3600.0
    jitter: Jitter = "none"
    delays: tuple[Seconds, ...] = ()

    def backoff(self) -> Backoff:
        """As the library's `Backoff`."""
        return Backoff(**msgspec.structs.asdict(self))


BackoffInput = list[Seconds] | BackoffBody
"""A list of delays, or a backoff with a shape."""


def to_backoff(backoff: BackoffInput) -> Backoff:
    """The backoff that a client sent."""
    return backoff.backoff() if isinstance(backoff, BackoffBody) else backoff_from(backoff)


class JobOptions(Body):
    """All options of a job; times are in seconds. Null is the same as leaving an option out."""

    id: str | None = None
    kind: str | None = None
    priority: Priority | None = None
    delay: Seconds | None = None
    run_at: float | None = None
    max_attempts: int | None = None
    backoff: BackoffInput | None = None
    lease: Seconds | None = None
    timeout: Seconds | None = None
    result_ttl: Seconds | None = None
    keys_if_undelivered: list[list[str]] | None = None
    callback_url: str | None = None
    group: str | None = None
    headers: dict[str, str] | None = None
    tags: list[str] | None = None
    correlation_id: str | None = None
    """Kept as the tag `correlation_id:…`, by which jobs that belong together are listed."""
    trace: str | None = None

    def for_enqueue(self) -> EnqueueOptions:
        """The options for `Queue.enqueue`."""
        given = {
            name: value
            for name in JobOptions.__struct_fields__
            if (value := getattr(self, name)) is not None
        }
        if "backoff" in given:
            given["backoff"] = to_backoff(given["backoff"])
        return cast(EnqueueOptions, given)


OTHER_NAMES = {"custom_ack_timeout": "lease", "custom_max_attempts": "max_attempts"}


class JobBody(JobOptions):
    """A job to enqueue."""

    payload: msgspec.Raw | UnsetType = UNSET
    custom_ack_timeout: Seconds | None = None
    """Another name for `lease`, which similar queues use."""
    custom_max_attempts: int | None = None
    """Another name for `max_attempts`, which similar queues use."""

    def for_enqueue(self) -> EnqueueOptions:
        """The options for `Queue.enqueue`."""
        options: dict[str, Any] = dict(super().for_enqueue())
        for other_name, name in OTHER_NAMES.items():
            value = getattr(self, other_name)
            if value is None:
                continue
            if name in options:
                raise Unprocessable(f"{other_name} is another name for {name}: give one of them")
            options[name] = value
        return cast(EnqueueOptions, options)

    def new_job(self, defaults: EnqueueOptions) -> NewJob[Any]:
        """The job for `Queue.enqueue_many`, with `defaults` for the options that it leaves out."""
        options: EnqueueOptions = {**defaults, **self.for_enqueue()}
        return NewJob(self.value, **options)

    @property
    def value(self) -> msgspec.Raw | None:
        """The payload as sent."""
        return none_if_null(self.payload)


def trace_options(traceparent: str | None) -> EnqueueOptions:
    """The trace in a request's header; a malformed one is ignored, as W3C requires."""
    trace = tracing.valid_traceparent(traceparent)
    return {"trace": trace} if trace is not None else {}


class PolicyBody(Body):
    """Defaults for a kind or a queue; null leaves them to the next wider level."""

    max_attempts: int | None = None
    backoff: BackoffInput | None = None
    lease: Seconds | None = None
    timeout: Seconds | None = None
    result_ttl: Seconds | None = None
    dedup_ttl: Seconds | None = None
    keep_failed: Seconds | None = None
    keep_cancelled: Seconds | None = None

    def policy(self) -> Policy:
        """As the library's `Policy`."""
        values: Mapping[str, Any] = msgspec.structs.asdict(self)
        backoff = to_backoff(self.backoff) if self.backoff is not None else None
        return Policy(**{**values, "backoff": backoff})
