"""The rules of the job lifecycle as pure functions from what happened to what follows.

Nothing here touches a store. A function takes the job as it was read and returns a
`Transition`; a store applies it if its guard still holds, in one atomic step, and rejects
it otherwise. So each rule is written once, and stores have none of their own.
"""

from __future__ import annotations

import enum
import operator
import random as _random
from collections.abc import Callable, Iterable, Mapping
from typing import Any, assert_never

import msgspec

from ackline.core.config import CALLBACK_RETENTION, ResolvedPolicy
from ackline.core.errors import InvalidOption
from ackline.core.events import ACTS_WITH_PRIORITY, Act, RecoveredBy
from ackline.core.job import TERMINAL, WAITING, DlqReason, Draft, Failure, QueueKey, Record, State
from ackline.core.limits import (
    MAX_NAME_BYTES,
    as_seconds,
    escape_invalid_unicode,
    require_seconds,
    truncate_message,
    truncate_note,
    truncate_traceback,
)
from ackline.core.outcome import Cancel, Dead, Done, Outcome, Retry, Snooze

_S = State

MAX_FAILURE_NOTE = 200

LEGAL_TRANSITIONS: Mapping[Act, Mapping[State | None, frozenset[State | None]]] = {
    Act.ENQUEUE: dict.fromkeys(
        (None, _S.FAILED, _S.CANCELLED), frozenset({_S.QUEUED, _S.SCHEDULED})
    ),
    Act.CLAIM: {_S.QUEUED: frozenset({_S.PROCESSING})},
    Act.COMPLETE: {_S.PROCESSING: frozenset({_S.COMPLETED})},
    Act.FAIL: {_S.PROCESSING: frozenset({_S.FAILING, _S.FAILED, _S.CANCELLED})},
    Act.SNOOZE: {_S.PROCESSING: frozenset({_S.SCHEDULED, _S.CANCELLED})},
    Act.RELEASE: {_S.PROCESSING: frozenset({_S.QUEUED, _S.CANCELLED})},
    Act.EXPIRE: {_S.PROCESSING: frozenset({_S.QUEUED, _S.FAILED, _S.CANCELLED})},
    Act.EXTEND: {_S.PROCESSING: frozenset({_S.PROCESSING})},
    Act.PROGRESS: {_S.PROCESSING: frozenset({_S.PROCESSING})},
    Act.REQUEST_CANCEL: {_S.PROCESSING: frozenset({_S.PROCESSING})},
    Act.PROMOTE: dict.fromkeys((_S.SCHEDULED, _S.FAILING), frozenset({_S.QUEUED})),
    Act.CANCEL: dict.fromkeys((*WAITING, _S.PROCESSING), frozenset({_S.CANCELLED})),
    Act.REDRIVE: {_S.FAILED: frozenset({_S.QUEUED, _S.SCHEDULED})},
    Act.EDIT: {
        _S.QUEUED: frozenset({_S.QUEUED, _S.SCHEDULED}),
        **{state: frozenset({state}) for state in (_S.SCHEDULED, _S.FAILING, *TERMINAL)},
    },
    Act.MOVE: {state: frozenset({state}) for state in (*WAITING, *TERMINAL)},
    Act.PRUNE: dict.fromkeys(TERMINAL, frozenset({None})),
    Act.PURGE: dict.fromkeys(State, frozenset({None})),
}
"""The one table of legal transitions: act → from → to. None is a job that does not exist."""

FENCED_ACTS = frozenset(
    {
        Act.COMPLETE,
        Act.FAIL,
        Act.SNOOZE,
        Act.RELEASE,
        Act.EXPIRE,
        Act.EXTEND,
        Act.PROGRESS,
    }
)
"""Acts that need the token of the current lease."""


_RETENTION_FIELDS = frozenset({"keep", "has_callback"})
_FAILURE_FIELDS = frozenset({"failure", "undelivered_keys", "keep_cancelled"}) | _RETENTION_FIELDS

FIELDS_OF_ACT: Mapping[Act, frozenset[str]] = {
    Act.COMPLETE: frozenset({"result"}) | _RETENTION_FIELDS,
    Act.FAIL: frozenset({"delay"}) | _FAILURE_FIELDS,
    Act.SNOOZE: frozenset({"delay", "attempts"}) | _RETENTION_FIELDS,
    Act.RELEASE: frozenset({"attempts"}) | _RETENTION_FIELDS,
    Act.EXPIRE: frozenset({"deadline", "recovered_by"}) | _FAILURE_FIELDS,
    Act.EXTEND: frozenset({"delay"}),
    Act.PROGRESS: frozenset({"progress"}),
    Act.REQUEST_CANCEL: frozenset(),
    Act.CANCEL: _RETENTION_FIELDS,
    Act.REDRIVE: frozenset({"delay", "attempts", "edit"}),
    Act.EDIT: frozenset({"edit"}),
    Act.MOVE: frozenset({"target"}),
}
"""Which fields a transition of each act may have; other acts are methods of the store.

Every act may also have a note, an actor, and either a token or an expected job.
"""

ACTS_WITHOUT_STATE = frozenset({Act.EXTEND, Act.PROGRESS, Act.REQUEST_CANCEL, Act.EDIT, Act.MOVE})
"""Acts whose transitions name no state: they leave it as it is, or to the store."""


STATES_THAT_KEEP_ID = frozenset(State) - LEGAL_TRANSITIONS[Act.ENQUEUE].keys()
"""States in which a job keeps its id: enqueueing the id again only reports the existing job."""


def keeps_id(draft: Draft, state: State, kind: str) -> bool:
    """Whether an existing job of this state and kind stays when a draft has the same id."""
    return state in STATES_THAT_KEEP_ID or (
        draft.replaces is not None and kind not in draft.replaces
    )


class Edit(msgspec.Struct, frozen=True, gc=False):
    """New values for a job that is not processing; None leaves a field as it is."""

    payload: bytes | None = None
    priority: int | None = None
    delay: float | None = None
    keep: float | None = None


class ExpectedJob(msgspec.Struct, frozen=True, gc=False):
    """A job as the caller last read it, to act on it only if it is unchanged.

    The token is compared too, because every claim gives the job a new one.
    """

    state: State
    token: int
    priority: int
    payload: bytes
    at: float | None
    """When it is due, or its retention ends; not compared for a queued job."""


class Transition(msgspec.Struct, frozen=True, gc=False):
    """One decided step of one job, to be applied only if its guard holds.

    The guard: the job's state is one that `act` may start from; with a `token`, the job is
    processing under this token or, for a redrive, failed under it; with a `deadline`, the lease
    still has this deadline; with `expected`, which excludes a token, the job is unchanged.
    Times are durations: the store adds them to its own clock.
    """

    id: str
    act: Act
    to: State | None = None
    """None leaves the state as it is."""
    token: int | None = None
    deadline: float | None = None
    delay: float = 0.0
    keep: float = 0.0
    """Retention, if it ends in a terminal state."""
    attempts: int | None = None
    result: bytes | None = None
    failure: Failure | None = None
    undelivered_keys: tuple[tuple[str, ...], ...] = ()
    progress: bytes | None = None
    edit: Edit | None = None
    target: QueueKey | None = None
    note: str = ""
    by: str = ""
    keep_cancelled: float | None = None
    """Retention, if it ends cancelled because that was requested; None means `keep`."""
    has_callback: bool = False
    """Whether the journal entry gets the job's `callback_url`, if this step ends the job."""
    expected: ExpectedJob | None = None
    recovered_by: RecoveredBy | None = None

    def __post_init__(self) -> None:
        """Reject fields and states that do not belong to the act, so that no store gets them."""
        try:
            other_fields, defaults = _RULES[self.act][self.to]
        except KeyError:
            raise _illegal_transition(self) from None
        if other_fields(self) != defaults:
            raise _illegal_transition(self)
        if self.expected is not None and self.token is not None:
            raise InvalidOption("a transition cannot have both a token and an expected job")


_DEFAULTS = {
    field.name: field.default
    for field in msgspec.structs.fields(Transition)
    if field.name in frozenset().union(*FIELDS_OF_ACT.values())
}


def _other_fields(act: Act) -> tuple[Callable[[Transition], Any], tuple[Any, ...]]:
    """The fields that a transition of this act cannot have, and their defaults."""
    names = [name for name in _DEFAULTS if name not in FIELDS_OF_ACT[act]]
    return operator.attrgetter(*names), tuple(_DEFAULTS[name] for name in names)


def _possible_states(act: Act) -> frozenset[State | None]:
    """The states that a transition of this act may name."""
    return (
        frozenset({None})
        if act in ACTS_WITHOUT_STATE
        else frozenset().union(*LEGAL_TRANSITIONS[act].values())
    )


_RULES = {act: dict.fromkeys(_possible_states(act), _other_fields(act)) for act in FIELDS_OF_ACT}


def _illegal_transition(transition: Transition) -> InvalidOption:
    if transition.act not in FIELDS_OF_ACT:
        return InvalidOption(f"{transition.act} is not a transition: the store has a method for it")
    if transition.to not in _RULES[transition.act]:
        return InvalidOption(f"{transition.act} does not lead to {transition.to}")
    illegal = [
        name
        for name, default in _DEFAULTS.items()
        if name not in FIELDS_OF_ACT[transition.act] and getattr(transition, name) != default
    ]
    return InvalidOption(f"{transition.act} cannot have {', '.join(illegal)}")


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """A store's answer to a transition: applied (now, or by an earlier call), or rejected.

    `state` is the job's state now; None if there is no such job.
    """

    applied: bool
    state: State | None


def is_legal_from(act: Act, source: State | None) -> bool:
    """Whether an act may start from this state."""
    return source in LEGAL_TRANSITIONS[act]


def may_apply(transition: Transition, state: State) -> bool:
    """Whether a transition can apply to a job in this state, given the right token and deadline."""
    if transition.token is not None:
        if not guarded_by_token(transition, state):
            return False
    elif transition.act in FENCED_ACTS:
        return False
    elif state is State.PROCESSING and transition.act is Act.CANCEL:
        # Without its token a running job can only be asked to stop.
        return False
    if transition.edit is not None and not _edit_fits(transition.edit, state):
        return False
    return state in LEGAL_TRANSITIONS[transition.act]


def _edit_fits(edit: Edit, state: State) -> bool:
    """Whether an edit fits the state: only finished jobs have a retention, only others a delay."""
    return (edit.keep is None or state.terminal) and (edit.delay is None or not state.terminal)


def passes_guard(
    transition: Transition, state: State, token: int, deadline: float | None, now: float
) -> bool:
    """Whether a transition's guard holds for a job in this state, at this time."""
    if transition.token is not None:
        if transition.token != token:
            return False
        if transition.deadline is not None and transition.deadline != deadline:
            return False
        if (
            transition.act is Act.EXTEND
            and deadline is not None
            and not may_extend(transition.token, token, deadline, now)
        ):
            return False
    return may_apply(transition, state)


def guarded_by_token(transition: Transition, state: State) -> bool:
    """Whether a token can guard this act in this state: a lease's, or a failure's for a redrive."""
    return state is (State.FAILED if transition.act is Act.REDRIVE else State.PROCESSING)


def expected_job(
    state: State, token: int, priority: int, payload: bytes, at: float | None
) -> ExpectedJob:
    """A job as it is now, to be compared with how it was read before."""
    return ExpectedJob(state, token, priority, payload, None if state is State.QUEUED else at)


def expected_from(job: Record) -> ExpectedJob:
    """The expected job of a record that was read before."""
    at = job.expires_at if job.state.terminal else job.run_at
    return expected_job(job.state, job.token, job.priority, job.payload, at)


REPEATABLE = frozenset({Act.COMPLETE, Act.FAIL, Act.SNOOZE, Act.RELEASE, Act.CANCEL})
"""Acts that get the same verdict when the holder of a lease sends them again."""


def was_applied(
    transition: Transition,
    last_act: Act | None,
    last_token: int,
    result: bytes | None,
    history: Iterable[Failure],
) -> bool:
    """Whether a transition whose guard fails was applied before: same token, act and result.

    `last_act` and `last_token` are of the job's last settled lease; `history` has the
    attempts that ended without completing. For those, the state that was decided counts as the
    result. Delays may differ, because backoff has jitter.
    """
    if transition.token is None or transition.act not in REPEATABLE:
        return False
    if transition.act is Act.COMPLETE or transition.act is Act.CANCEL:
        same = transition.token == last_token and transition.act is last_act
        return same and (transition.act is not Act.COMPLETE or transition.result == result)
    return any(
        attempt.token == transition.token
        and attempt.act == transition.act
        and attempt.to in ("", transition.to)
        for attempt in history
    )


def history_entry(
    transition: Transition, attempt: int, worker: str, started_at: float, now: float
) -> Failure | None:
    """The job's history entry for an attempt that fails, expires, is snoozed or released."""
    if transition.act not in (Act.FAIL, Act.EXPIRE, Act.SNOOZE, Act.RELEASE):
        return None
    failure = transition.failure or Failure(act=transition.act, attempt=attempt)
    return msgspec.structs.replace(
        failure,
        act=transition.act,
        attempt=attempt,
        at=now,
        token=transition.token or 0,
        worker=worker,
        started_at=started_at,
        to=transition.to or "",
    )


def journal_note(transition: Transition) -> str:
    """The short note that the journal keeps about a transition."""
    failure = transition.failure
    if failure is None:
        return transition.note
    return f"{failure.type}: {failure.message}"[:MAX_FAILURE_NOTE]


def journal_priority(transition: Transition, priority: int) -> int | None:
    """The job's priority now, if the journal keeps it for this act."""
    return priority if transition.act in ACTS_WITH_PRIORITY else None


def records_callback(transition: Transition, new_state: State) -> bool:
    """Whether the journal gets the job's callback URL, if it has one: the job has ended."""
    return transition.has_callback and new_state.terminal


_UNFINISHED = WAITING | {State.FAILED}


class PositionRule(enum.StrEnum):
    """How a store computes `at`, the job's position in its new state."""

    NEW_RANK = "new_rank"
    """By its rank, counted from now."""
    OLD_RANK = "old_rank"
    """By the rank it had."""
    DELAY = "delay"
    """Some seconds from now, when it is due, its lease lapses or its retention ends."""
    UNCHANGED = "unchanged"
    """As before; a queued job moves by the change of its priority."""


class Destination(msgspec.Struct, frozen=True, gc=False):
    """Where an applied transition leads: the state, and the rule for the position in it."""

    state: State
    position_rule: PositionRule
    seconds: float = 0.0


def find_destination(transition: Transition, state: State, cancel_requested: bool) -> Destination:
    """Find where a transition leads a job in this state.

    A job whose cancellation was requested does not run again: instead of waiting for another
    attempt, or going to the DLQ, it is cancelled.
    """
    if transition.act is Act.EDIT:
        return _find_destination_of_edit(transition.edit or Edit(), state)
    to, keep = transition.to or state, transition.keep
    if cancel_requested and transition.to in _UNFINISHED:
        to = State.CANCELLED
        if transition.keep_cancelled is not None:
            require_seconds("keep_cancelled", transition.keep_cancelled)
            keep = transition.keep_cancelled
    if to.terminal:
        return Destination(to, PositionRule.DELAY, keep)
    if to is State.QUEUED:
        return Destination(
            to, PositionRule.OLD_RANK if transition.act is Act.RELEASE else PositionRule.NEW_RANK
        )
    if to is State.PROCESSING and transition.act is not Act.EXTEND:
        return Destination(to, PositionRule.UNCHANGED)
    return Destination(to, PositionRule.DELAY, transition.delay)


def _find_destination_of_edit(edit: Edit, state: State) -> Destination:
    seconds = edit.keep if state.terminal else edit.delay
    if seconds is None or (state is State.QUEUED and not seconds):
        return Destination(state, PositionRule.UNCHANGED)
    return Destination(
        State.SCHEDULED if state is State.QUEUED else state, PositionRule.DELAY, seconds
    )


def keys_to_write(transition: Transition, new_state: State) -> tuple[tuple[str, ...], ...]:
    """The keys that an applied transition writes: those of a job that goes to the DLQ."""
    return transition.undelivered_keys if new_state is State.FAILED else ()


def may_extend(own_token: int, token: int, deadline: float, now: float) -> bool:
    """Whether the holder of a token may extend the current lease of a job.

    Not after its deadline: a sweep may be about to expire it.
    """
    return own_token == token and deadline > now


def extended_deadline(deadline: float, now: float, seconds: float) -> float:
    """The deadline of a lease after a heartbeat, which never shortens what `extend` has set."""
    return max(deadline, now + seconds)


def may_move(source: QueueKey, target: QueueKey) -> bool:
    """Whether a job may be moved from one queue to another: never across tenants."""
    return source.tenant == target.tenant and source.name != target.name


def rank(ready_at: float, priority: int, ageing: float) -> float:
    """The rank of a queued job: the lowest is claimed first.

    One step of priority weighs as much as `ageing` seconds of waiting, so a higher priority
    goes first, equal ones go in order of arrival, and the lowest still runs eventually.
    """
    return ready_at - priority * ageing


def initial_state(draft: Draft, now: float, ageing: float) -> tuple[State, float]:
    """The state of a new job, and its position in that state."""
    due = draft.run_at if draft.run_at is not None else now + draft.delay
    if due > now:
        return State.SCHEDULED, due
    return State.QUEUED, rank(now, draft.priority, ageing)


def find_position(
    destination: Destination,
    now: float,
    *,
    at: float,
    old_rank: float,
    old_priority: int,
    priority: int,
    ageing: float,
) -> float:
    """A job's position in its new state, given the one it had before."""
    match destination.position_rule:
        case PositionRule.NEW_RANK:
            return rank(now, priority, ageing)
        case PositionRule.OLD_RANK:
            return old_rank
        case PositionRule.DELAY:
            return now + destination.seconds
        case PositionRule.UNCHANGED:
            shift = (old_priority - priority) * ageing
            return at + shift if destination.state is State.QUEUED else at
        case _:
            assert_never(destination.position_rule)


# --- steps of a worker ------------------------------------------------------------------------


def truncate_failure(failure: Failure) -> Failure:
    """Limit the length of every part of a failure."""
    return msgspec.structs.replace(
        failure,
        type=escape_invalid_unicode(failure.type[:MAX_NAME_BYTES]),
        message=truncate_message(failure.message),
        traceback=truncate_traceback(failure.traceback),
    )


def complete(
    job: Record, result: bytes | None, policy: ResolvedPolicy, note: str = ""
) -> Transition:
    """Complete the job."""
    keep = max(policy.result_ttl, policy.dedup_ttl)
    if _has_callback(job):
        keep = max(keep, CALLBACK_RETENTION)
    return Transition(
        job.id,
        Act.COMPLETE,
        State.COMPLETED,
        job.token,
        keep=keep,
        result=result,
        note=truncate_note(note),
        has_callback=_has_callback(job),
    )


def _has_callback(job: Record) -> bool:
    return job.options.callback_url is not None


def fail(
    job: Record,
    failure: Failure,
    policy: ResolvedPolicy,
    random: _random.Random,
    delay: float | None = None,
) -> Transition:
    """Fail the attempt: retry after the backoff, or go to the DLQ when no attempts are left."""
    if job.attempts >= policy.max_attempts:
        return bury(job, failure, policy, DlqReason.MAX_ATTEMPTS)
    wait = policy.backoff.delay(job.attempts, random) if delay is None else delay
    return Transition(
        job.id,
        Act.FAIL,
        State.FAILING,
        job.token,
        delay=wait,
        keep=policy.keep_cancelled,
        failure=truncate_failure(failure),
        has_callback=_has_callback(job),
    )


def bury(
    job: Record, failure: Failure, policy: ResolvedPolicy, reason: DlqReason = DlqReason.DEAD
) -> Transition:
    """Send the job to the DLQ, and write its keys-if-undelivered."""
    failure = msgspec.structs.replace(failure, dlq_reason=reason)
    return Transition(
        job.id,
        Act.FAIL,
        State.FAILED,
        job.token,
        keep=policy.keep_failed,
        keep_cancelled=policy.keep_cancelled,
        failure=truncate_failure(failure),
        undelivered_keys=job.options.keys_if_undelivered,
        has_callback=_has_callback(job),
    )


def snooze(job: Record, delay: float, policy: ResolvedPolicy) -> Transition:
    """Run the job later; the attempt is given back."""
    return Transition(
        job.id,
        Act.SNOOZE,
        State.SCHEDULED,
        job.token,
        delay=delay,
        keep=policy.keep_cancelled,
        attempts=job.attempts - 1,
        has_callback=_has_callback(job),
    )


def release(job: Record, policy: ResolvedPolicy, note: str = "") -> Transition:
    """Return the job to its old position in the queue; the attempt is given back too."""
    return Transition(
        job.id,
        Act.RELEASE,
        State.QUEUED,
        job.token,
        keep=policy.keep_cancelled,
        attempts=job.attempts - 1,
        note=truncate_note(note),
        has_callback=_has_callback(job),
    )


def cancel_running(job: Record, reason: str, policy: ResolvedPolicy) -> Transition:
    """Cancel a running job because its handler returned `Cancel`."""
    return Transition(
        job.id,
        Act.CANCEL,
        State.CANCELLED,
        job.token,
        keep=policy.keep_cancelled,
        note=truncate_note(reason),
        has_callback=_has_callback(job),
    )


def extend(job: Record, seconds: float) -> Transition:
    """Extend the lease to `seconds` from now."""
    return Transition(job.id, Act.EXTEND, token=job.token, delay=seconds)


def progress(job: Record, data: bytes) -> Transition:
    """Store the progress that a handler reports."""
    return Transition(job.id, Act.PROGRESS, token=job.token, progress=data)


def settle(
    job: Record,
    outcome: Outcome,
    result: bytes | None,
    failure: Failure,
    policy: ResolvedPolicy,
    random: _random.Random,
) -> Transition:
    """Turn the outcome of a handler into a transition."""
    match outcome:
        case Done(result_ttl=ttl):
            if ttl is not None:
                policy = msgspec.structs.replace(policy, result_ttl=as_seconds(ttl))
            return complete(job, result, policy)
        case Retry(delay=delay):
            return fail(job, failure, policy, random, delay)
        case Snooze(delay=delay):
            return snooze(job, delay, policy)
        case Cancel(reason=reason):
            return cancel_running(job, str(reason), policy)  # a handler may give any type
        case Dead():
            return bury(job, failure, policy)
        case _:
            assert_never(outcome)


# --- steps of maintenance --------------------------------------------------------------------


def expire(
    job: Record,
    policy: ResolvedPolicy,
    reason: str = "lease expired",
    recovered_by: RecoveredBy | None = None,
) -> Transition:
    """Expire the lease: a crash costs an attempt, and a poison job ends in the DLQ.

    Guarded by the deadline that was read, so a heartbeat in between saves the lease.
    """
    reason = truncate_note(reason)
    to, keep = State.QUEUED, policy.keep_cancelled
    keys: tuple[tuple[str, ...], ...] = ()
    if job.attempts >= policy.max_attempts:
        to, keep, keys = State.FAILED, policy.keep_failed, job.options.keys_if_undelivered
    failure = Failure(
        act=Act.EXPIRE,
        attempt=job.attempts,
        token=job.token,
        worker=job.worker,
        started_at=job.started_at or 0.0,
        type="LeaseExpired",
        message=f"{reason} (worker {job.worker or 'unknown'})",
        dlq_reason=DlqReason.MAX_ATTEMPTS if to is State.FAILED else None,
    )
    return Transition(
        job.id,
        Act.EXPIRE,
        to,
        job.token,
        deadline=job.deadline,
        keep=keep,
        keep_cancelled=policy.keep_cancelled,
        failure=failure,
        undelivered_keys=keys,
        note=reason,
        has_callback=_has_callback(job),
        recovered_by=recovered_by,
    )


# --- steps of operators and producers -------------------------------------------------------


def cancel(id: str, policy: ResolvedPolicy, by: str = "") -> Transition:
    """Cancel a waiting job; the store knows whether it has a callback URL."""
    return Transition(
        id,
        Act.CANCEL,
        State.CANCELLED,
        keep=policy.keep_cancelled,
        by=truncate_note(by),
        has_callback=True,
    )


def request_cancel(id: str, by: str = "") -> Transition:
    """Request that a running job stops; its handler's signal is set."""
    return Transition(id, Act.REQUEST_CANCEL, by=truncate_note(by))


def state_after_redrive(delay: float) -> State:
    """The state of a redriven job that is to run after this delay."""
    return State.SCHEDULED if delay > 0 else State.QUEUED


def redrive(
    id: str,
    delay: float = 0.0,
    by: str = "",
    *,
    token: int | None = None,
    change: Edit | None = None,
) -> Transition:
    """Take a job out of the DLQ and run it again, now or later, with all its attempts.

    With a token, only if it failed under that token; with a change, it is edited in the same step.
    """
    return Transition(
        id,
        Act.REDRIVE,
        state_after_redrive(delay),
        token,
        delay=delay,
        attempts=0,
        edit=change,
        by=truncate_note(by),
    )


def edit(id: str, change: Edit, by: str = "", *, expected: ExpectedJob | None = None) -> Transition:
    """Change a job that is not processing; with `expected`, only if it is unchanged."""
    return Transition(id, Act.EDIT, edit=change, by=truncate_note(by), expected=expected)


def move(id: str, target: QueueKey, by: str = "") -> Transition:
    """Move a job to another queue of the same tenant."""
    return Transition(id, Act.MOVE, target=target, by=truncate_note(by))
