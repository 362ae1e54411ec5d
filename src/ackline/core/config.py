"""Policies and settings; a job's options override its kind's, its queue's and the defaults."""

from __future__ import annotations

import datetime
import difflib
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import msgspec

from ackline.core import retry
from ackline.core.errors import ConfigError
from ackline.core.job import NO_OPTIONS, Options, Record, round_trip
from ackline.core.limits import MAX_DELAY, Seconds, as_seconds, require_seconds
from ackline.core.retry import Backoff

Q = ParamSpec("Q")
T = TypeVar("T")

HOUR, DAY = 3600.0, 86400.0

CALLBACK_RETENTION = DAY
"""Minimum seconds to keep a finished job with a callback, as the callback refers to the job."""

MAX_REPAIR_LIMIT = 10_000
"""Maximum `repair_limit`: all other clients wait for a claim that does more."""

MIN_SWEEP_INTERVAL = 0.01
"""Seconds; a shorter interval would only load the store."""


def _convert_durations(settings: msgspec.Struct) -> None:
    for name in settings.__struct_fields__:
        value = getattr(settings, name)
        if isinstance(value, datetime.timedelta):
            msgspec.structs.force_setattr(settings, name, as_seconds(value))


class Policy(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """What can be set for a kind or a whole queue; None leaves it to the next wider level."""

    max_attempts: int | None = None
    backoff: Backoff | None = None
    lease: float | None = None
    timeout: float | None = None
    result_ttl: float | None = None
    dedup_ttl: float | None = None
    keep_failed: float | None = None
    keep_cancelled: float | None = None
    from_handler: bool = False
    """Whether a worker stored it for a handler; it is removed once the handler has no policy."""

    if TYPE_CHECKING:  # a struct's fields are its parameters, and these take more than they keep

        def __init__(
            self,
            *,
            max_attempts: int | None = None,
            backoff: Backoff | None = None,
            lease: Seconds | None = None,
            timeout: Seconds | None = None,
            result_ttl: Seconds | None = None,
            dedup_ttl: Seconds | None = None,
            keep_failed: Seconds | None = None,
            keep_cancelled: Seconds | None = None,
            from_handler: bool = False,
        ) -> None: ...

    def __post_init__(self) -> None:
        _convert_durations(self)
        Options(
            max_attempts=self.max_attempts,
            lease=self.lease,
            timeout=self.timeout,
            result_ttl=self.result_ttl,
        )
        require_seconds("dedup_ttl", self.dedup_ttl)
        require_seconds("keep_failed", self.keep_failed)
        require_seconds("keep_cancelled", self.keep_cancelled)


def suggestion_for(unknown: Iterable[str], known: Iterable[str]) -> str:
    """Advice on unknown option names, as the end of a message; empty if there is none."""
    names = sorted(unknown)
    if of_policy := [name for name in names if name in Policy.__struct_fields__]:
        arguments = ", ".join(f"{name}=…" for name in of_policy)
        return f". For a whole queue, write queue.configure(policy=ackline.Policy({arguments}))"
    guesses = (difflib.get_close_matches(name, list(known), 1) for name in names)
    return next((f". Did you mean {guess[0]}?" for guess in guesses if guess), "")


def suggests_options(function: Callable[Q, T]) -> Callable[Q, T]:
    """Add to a function's error about unknown options where they belong."""
    known = inspect.signature(function).parameters.keys()

    @functools.wraps(function)
    def call(*args: Q.args, **options: Q.kwargs) -> T:
        if unknown := options.keys() - known:
            raise TypeError(
                f"{function.__qualname__}() has no option {', '.join(sorted(unknown))}"
                f"{suggestion_for(unknown, known)}"
            )
        return function(*args, **options)

    return call


class ResolvedPolicy(msgspec.Struct, frozen=True, gc=False):
    """A policy with a value for everything, as the lifecycle needs it."""

    max_attempts: int = 3
    backoff: Backoff = retry.DEFAULT_BACKOFF
    lease: float = 30.0
    timeout: float | None = None
    result_ttl: float = HOUR
    dedup_ttl: float = 0.0
    """The least time for which a completed job keeps its id, whatever `result_ttl` it has."""
    keep_failed: float = 30 * DAY
    keep_cancelled: float = DAY


DEFAULTS = ResolvedPolicy()


class QueueSettings(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The settings of one queue, kept in the store and shared by all its users."""

    policy: Policy = Policy()
    kinds: Mapping[str, Policy] = {}
    paused: bool = False
    ageing: float = 60.0
    """Seconds of waiting that weigh as much as one step of priority."""
    group_limit: int = 1
    """How many jobs of one group may be processing at once."""
    max_jobs: int | None = None
    """Enqueueing is rejected beyond this many live jobs; None means no limit."""
    keep_journal: float = 7 * DAY
    max_journal: int | None = None
    """Maximum number of events in the journal; None leaves it to the store."""
    recovery: bool = True
    """Whether expired leases, and those of silent workers, are recovered automatically."""
    sweep_every: float | None = None
    """Seconds between two sweeps for these leases; None uses the maintenance interval."""
    repair_limit: int = 200
    """How many due jobs, and how many expired leases, one claim at most puts back in the queue."""
    stuck_after: float = 300.0
    """Seconds past its deadline after which an unrecovered lease is reported."""

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            policy: Policy = ...,
            kinds: Mapping[str, Policy] = ...,
            paused: bool = False,
            ageing: Seconds = 60.0,
            group_limit: int = 1,
            max_jobs: int | None = None,
            keep_journal: Seconds = 7 * DAY,
            max_journal: int | None = None,
            recovery: bool = True,
            sweep_every: Seconds | None = None,
            repair_limit: int = 200,
            stuck_after: Seconds = 300.0,
        ) -> None: ...

    def __post_init__(self) -> None:
        _convert_durations(self)
        _require("ageing", self.ageing, 0.0)
        _require("group_limit", self.group_limit, 1)
        _require("max_jobs", self.max_jobs, 0)
        _require("keep_journal", self.keep_journal, 0.0)
        _require("max_journal", self.max_journal, 0)
        _require("sweep_every", self.sweep_every, MIN_SWEEP_INTERVAL)
        _require("repair_limit", self.repair_limit, 1)
        if self.repair_limit > MAX_REPAIR_LIMIT:
            raise ConfigError(
                f"repair_limit must be {MAX_REPAIR_LIMIT:,} or less, not {self.repair_limit!r}"
            )
        _require("stuck_after", self.stuck_after, 0.0)


def _require(what: str, value: float | None, minimum: float) -> None:
    # A NaN fails this comparison, too.
    if value is not None and not minimum <= value <= MAX_DELAY * 1e6:
        raise ConfigError(f"{what} must be a number, {minimum:g} or more, not {value!r}")


DEFAULT_SETTINGS = QueueSettings()


def validated_settings(settings: QueueSettings) -> QueueSettings:
    """Return the settings as every process will decode them, or raise `ConfigError`.

    Every store calls this before it writes: unreadable settings would stop the whole tenant.
    """
    try:
        return round_trip(settings, QueueSettings)
    except ValueError as error:
        raise ConfigError(f"invalid settings: {error}") from error


def resolve_policy(
    record: Record, settings: QueueSettings, defaults: ResolvedPolicy = DEFAULTS
) -> ResolvedPolicy:
    """The policy of one job: its own options, then its kind's, its queue's, and the defaults."""
    wider = _resolve_kind_policy(
        settings.kinds.get(record.kind, _NO_POLICY), settings.policy, defaults
    )
    if record.options is NO_OPTIONS or record.options == NO_OPTIONS:
        return wider
    policy = _override(wider, record.options)
    return policy if record.options.callback_url is None else _with_callback_retention(policy)


def _with_callback_retention(policy: ResolvedPolicy) -> ResolvedPolicy:
    # Not `result_ttl`, which the handler may still set: `lifecycle.complete` raises that.
    names = ("keep_failed", "keep_cancelled")
    kept = {name: max(CALLBACK_RETENTION, getattr(policy, name)) for name in names}
    return msgspec.structs.replace(policy, **kept)


_NO_POLICY = Policy()


@functools.lru_cache(maxsize=4096)
def _resolve_kind_policy(kind: Policy, queue: Policy, defaults: ResolvedPolicy) -> ResolvedPolicy:
    return _override(_override(defaults, queue), kind)


def max_attempts_of(policy: Policy) -> int:
    """The `max_attempts` that a policy sets itself; 0 if it leaves it to the next wider level."""
    return _override(_UNSET_ATTEMPTS, policy).max_attempts


_UNSET_ATTEMPTS = ResolvedPolicy(max_attempts=0)


def _override(wider: ResolvedPolicy, narrower: Policy | Options) -> ResolvedPolicy:
    given = {
        name: value
        for name in ResolvedPolicy.__struct_fields__
        if (value := getattr(narrower, name, None)) is not None
    }
    backoff = given.get("backoff")
    if backoff is not None and backoff.attempts is not None:
        given.setdefault("max_attempts", backoff.attempts)
    return msgspec.structs.replace(wider, **given) if given else wider
