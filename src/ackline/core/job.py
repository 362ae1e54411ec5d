"""Job types: states, queue keys, options, drafts and records."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from ackline.core.errors import InvalidJob, InvalidOption
from ackline.core.limits import (
    DEFAULT_PRIORITY,
    require_lease,
    require_name,
    require_seconds,
    require_url,
)
from ackline.core.retry import Backoff

T = TypeVar("T")

ATTEMPTS_LIMIT = 1_000_000
MAX_TAGS, MAX_TAG_LENGTH = 20, 100
"""Maximum number of tags of a job, and of characters of each."""

MAX_OPTIONS_LENGTH = 65_536
"""Maximum characters of all options of a job together, as lists of jobs include them."""


CORRELATION_TAG = "correlation_id:"
"""The start of the tag that has a job's correlation id, by which related jobs are found."""


class State(enum.StrEnum):
    """The state of a job."""

    SCHEDULED = "scheduled"
    QUEUED = "queued"
    PROCESSING = "processing"
    FAILING = "failing"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def terminal(self) -> bool:
        return self in TERMINAL


TERMINAL = frozenset({State.COMPLETED, State.FAILED, State.CANCELLED})
WAITING = frozenset({State.SCHEDULED, State.QUEUED, State.FAILING})
LIVE = WAITING | {State.PROCESSING}


class QueueKey(msgspec.Struct, frozen=True, order=True):
    """A queue's tenant and name."""

    tenant: str
    name: str

    def __str__(self) -> str:
        return self.name if self.tenant == "default" else f"{self.tenant}/{self.name}"


class Options(msgspec.Struct, frozen=True, omit_defaults=True, gc=False, kw_only=True):
    """A producer's options for one job; None leaves one to its kind, its queue, or the default."""

    max_attempts: int | None = None
    backoff: Backoff | None = None
    lease: float | None = None
    timeout: float | None = None
    result_ttl: float | None = None
    keys_if_undelivered: tuple[tuple[str, ...], ...] = ()
    callback_url: str | None = None
    group: str | None = None
    headers: Mapping[str, str] = {}
    tags: tuple[str, ...] = ()
    trace: str | None = None
    codec: str | None = None
    request: str | None = None
    """Marks the request that made the job, so that the request is recognised if sent again."""

    def __post_init__(self) -> None:
        if self.max_attempts is not None:
            _require_attempts(self.max_attempts)
        require_lease(self.lease)
        require_seconds("timeout", self.timeout, above_zero=True)
        require_seconds("result_ttl", self.result_ttl)
        if self.group is not None:
            require_name("group", self.group)
        if self.callback_url is not None:
            require_url("callback_url", self.callback_url)
        if self.tags:
            _require_tags(self.tags)
        if self.headers or self.keys_if_undelivered or self.trace or self.codec or self.request:
            texts = [self.trace or "", self.codec or "", self.request or ""]
            texts += [*self.headers, *self.headers.values()]
            texts += [part for key in self.keys_if_undelivered for part in key]
            if sum(len(str(text)) for text in texts) > MAX_OPTIONS_LENGTH:
                raise InvalidOption(
                    f"headers, keys_if_undelivered and trace may have {MAX_OPTIONS_LENGTH:,} "
                    "characters together: put what is larger into the payload"
                )


NO_OPTIONS = Options()


def _require_attempts(attempts: object) -> None:
    # A float or a bool would be stored as such, and could not be read as a number of attempts.
    if type(attempts) is not int or not 1 <= attempts <= ATTEMPTS_LIMIT:
        raise InvalidOption(
            f"max_attempts must be a whole number from 1 to {ATTEMPTS_LIMIT:,}, not {attempts!r}"
        )


def _require_tags(tags: tuple[str, ...]) -> None:
    if len(tags) > MAX_TAGS:
        raise InvalidOption(f"a job has at most {MAX_TAGS} tags, not {len(tags)}")
    for tag in tags:
        require_name("tag", tag)
        if len(tag) > MAX_TAG_LENGTH:
            raise InvalidOption(f"a tag has at most {MAX_TAG_LENGTH} characters, not {len(tag)}")


_encode = msgspec.msgpack.Encoder().encode


def round_trip(value: Any, type: type[T]) -> T:
    """Return a value as a store would decode it, or raise `InvalidOption`.

    A store writes whatever it is given, and a value of the wrong type would fail every later read.
    """
    try:
        return msgspec.msgpack.decode(_encode(msgspec.convert(value, type)), type=type)
    except (TypeError, ValueError) as error:
        if isinstance(error.__cause__, InvalidJob):
            raise error.__cause__ from None
        raise InvalidOption(f"invalid option: {error}") from None


class DlqReason(enum.StrEnum):
    """Why a job went to the dead-letter queue."""

    MAX_ATTEMPTS = "max_attempts"
    """Its attempts are used up."""
    DEAD = "dead"
    """Its worker gave it up, whatever attempts remained."""


class Failure(msgspec.Struct, frozen=True, omit_defaults=True, gc=False, kw_only=True):
    """How one attempt ended, when it did not complete."""

    act: str
    attempt: int
    at: float = 0.0
    token: int = 0
    worker: str = ""
    started_at: float = 0.0
    type: str = ""
    message: str = ""
    traceback: str = ""
    to: str = ""
    """The state that was decided; a job whose cancellation was requested is cancelled instead."""
    dlq_reason: DlqReason | None = None
    """Why it was the last attempt; None if it was not."""


class Draft(msgspec.Struct, frozen=True, gc=False):
    """A job on its way into a store."""

    id: str
    kind: str
    payload: bytes
    priority: int = DEFAULT_PRIORITY
    delay: float = 0.0
    run_at: float | None = None
    options: Options = NO_OPTIONS
    assume_new: bool = False
    """A hint: no job of this id can exist, so the store may insert without a look-up.
    A wrong hint costs time, never correctness."""
    replaces: frozenset[str] | None = None
    """The kinds of which a failed or cancelled job of this id may be replaced; None: any kind."""


class Record(msgspec.Struct, frozen=True, gc=False):
    """A job as a store returns it, with payload and result still encoded."""

    id: str
    kind: str
    state: State
    payload: bytes
    priority: int
    options: Options
    attempts: int
    created_at: float
    token: int = 0
    worker: str = ""
    started_at: float | None = None
    deadline: float | None = None
    run_at: float | None = None
    finished_at: float | None = None
    expires_at: float | None = None
    cancel_requested: bool = False
    progress: bytes | None = None
    result: bytes | None = None
    history: tuple[Failure, ...] = ()
    """The attempts that did not complete; filled when a job is read, not when claimed."""

    @property
    def failure(self) -> Failure | None:
        """The last error, if there was one."""
        return next((attempt for attempt in reversed(self.history) if attempt.type), None)

    def without_data(self) -> Record:
        """The job without payload, progress and result, which may be large."""
        return msgspec.structs.replace(self, payload=b"", progress=None, result=None)

    def without_handler_data(self) -> Record:
        """The job with only what settling it needs: nothing large, nothing for its handler."""
        options = self.options
        if options.headers or options.trace or options.tags:
            options = msgspec.structs.replace(options, headers={}, trace=None, tags=())
        return msgspec.structs.replace(self.without_data(), options=options)
