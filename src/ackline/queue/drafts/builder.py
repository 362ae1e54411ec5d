"""Builds the draft of a job from its payload and options."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, TypedDict, TypeVar, Unpack, cast

from ackline.core.config import suggestion_for
from ackline.core.errors import InvalidOption
from ackline.core.ids import new_id
from ackline.core.job import CORRELATION_TAG, NO_OPTIONS, Draft, Options, QueueKey, round_trip
from ackline.core.limits import (
    DEFAULT_PRIORITY,
    Seconds,
    Time,
    as_names,
    as_seconds,
    optional_timestamp,
    reject_reserved_id,
    require_name,
    require_priority,
    require_text,
    require_user_key,
    some_seconds,
)
from ackline.core.retry import BackoffLike, backoff_from
from ackline.queue import tracing
from ackline.queue.drafts.bloom_filter import RotatingBloomFilter, filter_for_store
from ackline.queue.handlers import DEFAULT_KIND, Handlers
from ackline.queue.serdes import Serdes
from ackline.stores.contract import Store

T = TypeVar("T")

MAX_TIMESTAMP = 1e11
"""Seconds since 1970: a later `run_at` is more likely in milliseconds."""

MIN_AWAITED_RESULT_TTL = 1.0
"""Minimum seconds to keep a result that is waited for."""


class JobOptions(TypedDict, total=False):
    """The options that every job may have."""

    id: str
    priority: int
    delay: Seconds
    run_at: Time
    max_attempts: int
    backoff: BackoffLike
    lease: Seconds
    result_ttl: Seconds
    keys_if_undelivered: Iterable[Sequence[str]]
    callback_url: str
    group: str
    headers: Mapping[str, str]
    tags: Iterable[str]
    correlation_id: str
    trace: str


class CallOptions(JobOptions, total=False):
    """The options of a job whose result is waited for."""

    kind: str


class EnqueueOptions(CallOptions, total=False):
    """All options of one job."""

    timeout: Seconds


class TaskOptions(JobOptions, total=False):
    """The options of a call of a task; its kind is the task's."""

    timeout: Seconds
    wait: Seconds
    """Seconds that `call` waits for the result."""
    connection: object
    """Enqueue in the transaction that is open on this connection."""


class NewJob(Generic[T]):
    """A payload with options of its own, for `enqueue_many`.

    >>> queue.enqueue_many([NewJob({"to": "a"}, id="a", priority=9)])  # doctest: +SKIP
    """

    def __init__(self, payload: T, **options: Unpack[EnqueueOptions]) -> None:
        self.payload = payload
        self.options = options


class DraftBuilder:
    """Validates and encodes the jobs of one queue."""

    def __init__(
        self, store: Store, key: QueueKey, serdes: Serdes[Any], handlers: Handlers
    ) -> None:
        self._store = store
        self._key = key
        self._serdes = serdes
        self._handlers = handlers

    def draft(self, payload: Any, options: CallOptions, *, of_many: bool = False) -> Draft:
        """Check and encode one job; `of_many` also finds out whether its id is new."""
        if not options:
            return self._draft_without_options(payload)
        if unknown := options.keys() - _KNOWN_OPTIONS:
            raise TypeError(
                f"unknown job option: "
                f"{', '.join(sorted(unknown))}{suggestion_for(unknown, _KNOWN_OPTIONS)}"
            )
        if None in options.values():
            # None counts as not given, so that callers can pass on options that they may not have.
            given = {name: value for name, value in options.items() if value is not None}
            options = cast(CallOptions, given)
        id = options.get("id")
        if id is None:
            id, assume_new = new_id(), True
        else:
            require_name("id", id)
            reject_reserved_id(id, None)
            assume_new = of_many and self._dedup.add((self._key, id))
        kind = options.get("kind", DEFAULT_KIND)
        require_name("kind", kind)
        priority = options.get("priority", DEFAULT_PRIORITY)
        require_priority(priority)
        delay = some_seconds("delay", options.get("delay", 0.0))
        return Draft(
            id,
            kind,
            self._serdes.encode_as(payload, self._handlers.payload_type(kind), kind),
            priority,
            delay,
            _run_at(options),
            self._options(options),
            assume_new,
        )

    def _draft_without_options(self, payload: Any) -> Draft:
        """As `draft` without options: most jobs have none, and there is nothing to check then."""
        declared = self._handlers.payload_type(DEFAULT_KIND)
        return Draft(
            new_id(),
            DEFAULT_KIND,
            self._serdes.encode_as(payload, declared, DEFAULT_KIND),
            options=self._options({}),
            assume_new=True,
        )

    def draft_awaited(self, payload: Any, options: CallOptions) -> Draft:
        """Check and encode a job whose result is waited for."""
        draft = self.draft(payload, options)
        ttl = draft.options.result_ttl
        if ttl is not None and ttl < MIN_AWAITED_RESULT_TTL:
            raise InvalidOption(
                f"result_ttl must be at least {MIN_AWAITED_RESULT_TTL:g} s when waiting for the "
                f"result, not {ttl:g}"
            )
        return draft

    def draft_many_item(self, job: Any, shared: EnqueueOptions) -> Draft:
        """Check and encode a payload, or a `NewJob` whose own options come first."""
        if not isinstance(job, NewJob):
            return self.draft(job, shared)
        options: EnqueueOptions = {**shared, **job.options} if shared else job.options
        return self.draft(job.payload, options, of_many=True)

    @functools.cached_property
    def _dedup(self) -> RotatingBloomFilter:
        """The jobs that this process has enqueued; created on first use, as it is large."""
        return filter_for_store(self._store)

    def _options(self, options: CallOptions) -> Options:
        trace = options.get("trace") or tracing.current_traceparent()
        serde = self._serdes.payload.name
        if not options and trace is None and serde == "json":
            return NO_OPTIONS
        stored: dict[str, Any] = {
            name: options[name]  # type: ignore[literal-required]
            for name in _STORED_OPTIONS
            if name in options
        }
        for name in _DURATIONS & stored.keys():
            stored[name] = as_seconds(stored[name])
        if "backoff" in stored:
            stored["backoff"] = backoff_from(stored["backoff"])
        if "keys_if_undelivered" in stored:
            stored["keys_if_undelivered"] = _keys(stored["keys_if_undelivered"])
        if "tags" in stored or "correlation_id" in options:
            stored["tags"] = _tags(stored.get("tags"), options.get("correlation_id"))
        if serde != "json":
            stored["codec"] = serde
        if trace is not None:
            stored["trace"] = trace
        return _validated_options(stored) if stored else NO_OPTIONS


_STORED_OPTIONS = frozenset(Options.__struct_fields__) - {"codec", "request"}
_DURATIONS = frozenset({"lease", "timeout", "result_ttl"})
_KNOWN_OPTIONS = frozenset(EnqueueOptions.__annotations__)


def _validated_options(given: dict[str, Any]) -> Options:
    options = round_trip(given, Options)
    for key in options.keys_if_undelivered:
        require_user_key(key)
    return options


def _tags(given: Iterable[str] | None, correlation_id: str | None) -> list[str]:
    tags = as_names(given, "tags") or frozenset()
    if correlation_id is not None:
        require_text("correlation_id", correlation_id)
        tags |= {CORRELATION_TAG + correlation_id}
    return sorted(tags)


def _keys(given: Any) -> tuple[tuple[str, ...], ...]:
    try:
        keys = tuple(given)
        if not isinstance(given, str) and not any(isinstance(key, str) for key in keys):
            return tuple(map(tuple, keys))
    except TypeError:  # one of them cannot be iterated over
        pass
    raise InvalidOption(
        f"keys_if_undelivered is a list of keys, each a list of strings, not {given!r}"
    )


def _run_at(options: CallOptions) -> float | None:
    moment = options.get("run_at")
    if moment is None:
        return None
    if "delay" in options:
        raise InvalidOption("a job has a delay or a run_at, not both")
    seconds = optional_timestamp("run_at", moment)
    if seconds is None or not 0 <= seconds < MAX_TIMESTAMP:
        raise InvalidOption(
            "run_at must be a datetime or seconds since 1970, and lie between the years 1970 and "
            f"5138, not {moment!r}"
        )
    return float(seconds)
