"""Every rule of a job's life, as pure functions: what happened, and what it leads to.

Nothing here touches a store. A function takes the job as it was seen and returns a
`Transition`; a store applies it if its guard still holds, in one atomic step, and refuses
it otherwise. So each rule is written once, and stores have none of their own.
"""

from __future__ import annotations

import enum
import operator
import random as _random
from collections.abc import Callable, Iterable, Mapping
from typing import Any, assert_never

import msgspec

from ackline.config import CALLBACK_KEPT, Resolved
from ackline.errors import InvalidOption
from ackline.events import TELLS_PRIORITY, Act
from ackline.job import TERMINAL, WAITING, Draft, Failure, QueueKey, Record, State
from ackline.limits import (
    LONGEST_NAME,
    require_seconds,
    short_message,
    short_note,
    short_traceback,
    storable,
)
from ackline.outcome import Cancel, Dead, Done, Outcome, Retry, Snooze

_S = State

NOTE_LENGTH = 200

LEGAL: Mapping[Act, Mapping[State | None, frozenset[State | None]]] = {
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

FENCED = frozenset(
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
"""Acts that only the holder of the lease's token may take."""


_RETENTION = frozenset({"keep", "calls_back"})
_FAILURE = frozenset({"failure", "keys", "keep_cancelled"}) | _RETENTION

CHANGES: Mapping[Act, frozenset[str]] = {
    Act.COMPLETE: frozenset({"result"}) | _RETENTION,
    Act.FAIL: frozenset({"delay"}) | _FAILURE,
    Act.SNOOZE: frozenset({"delay", "attempts"}) | _RETENTION,
    Act.RELEASE: frozenset({"attempts"}) | _RETENTION,
    Act.EXPIRE: _FAILURE,
    Act.EXTEND: frozenset({"delay"}),
    Act.PROGRESS: frozenset({"progress"}),
    Act.REQUEST_CANCEL: frozenset(),
    Act.CANCEL: _RETENTION,
    Act.REDRIVE: frozenset({"delay", "attempts", "edit"}),
    Act.EDIT: frozenset({"edit"}),
    Act.MOVE: frozenset({"target"}),
}
"""Which fields of a job a transition of each act may change; other acts are verbs of a store.

Its guards, its note and who did it are no changes: every act may have them.
"""

STAYING = frozenset({Act.EXTEND, Act.PROGRESS, Act.REQUEST_CANCEL, Act.EDIT, Act.MOVE})
"""Acts whose transitions name no state: they leave it as it is, or to the store."""


KEEPS_ID = frozenset(State) - LEGAL[Act.ENQUEUE].keys()
"""States in which a job keeps its id: enqueueing the id again only reports the existing job."""


def keeps_id(draft: Draft, state: State, kind: str) -> bool:
    """Whether an existing job of this state and kind stays when a draft has the same id."""
    return state in KEEPS_ID or (draft.replaces is not None and kind not in draft.replaces)


class Edit(msgspec.Struct, frozen=True, gc=False):
    """New values for a job that is not processing; None leaves a field as it is."""

    payload: bytes | None = None
    priority: int | None = None
    delay: float | None = None
    keep: float | None = None


class Seen(msgspec.Struct, frozen=True, gc=False):
    """A job as its operator saw it, to act on it only if it is unchanged.

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
    still has this deadline; with `seen` (for acts that need no token), the job is still as it
    was seen.
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
    keys: tuple[tuple[str, ...], ...] = ()
    progress: bytes | None = None
    edit: Edit | None = None
    target: QueueKey | None = None
    note: str = ""
    by: str = ""
    keep_cancelled: float | None = None
    """Retention, if it ends cancelled because the job was asked to stop; None means `keep`."""
    calls_back: bool = False
    """Whether the journal entry has the job's `callback_url`, if this step ends the job's life."""
    seen: Seen | None = None

    def __post_init__(self) -> None:
        """Refuse a change or an end that is not the act's: no store is ever given one."""
        try:
            foreign, unchanged = _RULES[self.act][self.to]
        except KeyError:
            raise _refusal(self) from None
        if foreign(self) != unchanged:
            raise _refusal(self)


_CHANGING = frozenset().union(*CHANGES.values())
_UNCHANGED = {
    field.name: field.default
    for field in msgspec.structs.fields(Transition)
    if field.name in _CHANGING
}


def _rule(act: Act) -> tuple[Callable[[Transition], Any], tuple[Any, ...]]:
    """The fields that an act leaves alone, and the values that they have then."""
    foreign = [name for name in _UNCHANGED if name not in CHANGES[act]]
    return operator.attrgetter(*foreign), tuple(_UNCHANGED[name] for name in foreign)


def _ends(act: Act) -> frozenset[State | None]:
    """The states that a transition of this act may name."""
    return frozenset({None}) if act in STAYING else frozenset().union(*LEGAL[act].values())


_RULES = {act: dict.fromkeys(_ends(act), _rule(act)) for act in CHANGES}


def _refusal(step: Transition) -> InvalidOption:
    if step.act not in CHANGES:
        return InvalidOption(f"{step.act} is no transition: it is a verb of its own")
    if step.to not in _RULES[step.act]:
        return InvalidOption(f"{step.act} does not lead to {step.to}")
    foreign = [
        name
        for name, default in _UNCHANGED.items()
        if name not in CHANGES[step.act] and getattr(step, name) != default
    ]
    return InvalidOption(f"{step.act} cannot change {', '.join(foreign)}")


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """What became of a transition: applied (now, or by an earlier send of it), or refused.

    `state` is where the job stands; None when there is no such job.
    """

    applied: bool
    state: State | None


def legal(act: Act, source: State | None) -> bool:
    """Whether an act may start from this state."""
    return source in LEGAL[act]


def may_start(transition: Transition, state: State) -> bool:
    """Whether a transition can apply to a job in this state, given the right token and deadline."""
    if transition.token is not None:
        if not guarded_by_token(transition, state):
            return False
    elif transition.act in FENCED:
        return False
    elif state is State.PROCESSING and transition.act is Act.CANCEL:
        # Without its token a running job can only be asked to stop.
        return False
    if transition.edit is not None and not _concerns(transition.edit, state):
        return False
    return state in LEGAL[transition.act]


def _concerns(edit: Edit, state: State) -> bool:
    """Whether an edit fits the state: only finished jobs have a retention, only others a delay."""
    return (edit.keep is None or state.terminal) and (edit.delay is None or not state.terminal)


def holds(
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
    return may_start(transition, state)


def guarded_by_token(transition: Transition, state: State) -> bool:
    """Whether a token can guard this act in this state: a lease's, or a failure's for a redrive."""
    return state is (State.FAILED if transition.act is Act.REDRIVE else State.PROCESSING)


def seen_now(state: State, token: int, priority: int, payload: bytes, at: float | None) -> Seen:
    """A job as it is now, to be compared with how it was seen before."""
    return Seen(state, token, priority, payload, None if state is State.QUEUED else at)


def seen_of(job: Record) -> Seen:
    """A job as it was when it was looked up."""
    at = job.expires_at if job.state.terminal else job.run_at
    return seen_now(job.state, job.token, job.priority, job.payload, at)


REPEATABLE = frozenset({Act.COMPLETE, Act.FAIL, Act.SNOOZE, Act.RELEASE, Act.CANCEL})
"""Acts that have the same verdict when the holder of a lease sends them again."""


def repeats(
    transition: Transition,
    last_act: Act | None,
    last_token: int,
    result: bytes | None,
    history: Iterable[Failure],
) -> bool:
    """Whether a transition whose guard fails was applied before: the same token, act and end.

    `last_act` and `last_token` are of the job's last settled lease; `history` has the
    attempts that ended without completing. The end is the result, or the state decided on:
    a retry does not repeat a burial. Delays may differ, because backoff has jitter.
    """
    if transition.token is None or transition.act not in REPEATABLE:
        return False
    if transition.act is Act.COMPLETE or transition.act is Act.CANCEL:
        same = transition.token == last_token and transition.act is last_act
        return same and (transition.act is not Act.COMPLETE or transition.result == result)
    return any(
        ended.token == transition.token
        and ended.act == transition.act
        and ended.to in ("", transition.to)
        for ended in history
    )


def ended_attempt(
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


def note_of(transition: Transition) -> str:
    """The short note that the journal keeps about a transition."""
    failure = transition.failure
    if failure is None:
        return transition.note
    return f"{failure.type}: {failure.message}"[:NOTE_LENGTH]


def told_priority(transition: Transition, priority: int) -> int | None:
    """The job's priority now, if the journal keeps it for this act."""
    return priority if transition.act in TELLS_PRIORITY else None


def ends_calling_back(transition: Transition, landed: State) -> bool:
    """Whether the journal keeps the job's callback URL, if it has one: its life has ended."""
    return transition.calls_back and landed.terminal


_UNDONE = WAITING | {State.FAILED}


class Stands(enum.StrEnum):
    """How a store computes `at`, the job's place in the line of its new state."""

    FRESH = "fresh"
    """By its rank, counted from now."""
    BACK = "back"
    """By the rank it had."""
    AFTER = "after"
    """Some seconds from now, when it is due, its lease lapses or its retention ends."""
    STAYS = "stays"
    """Where it was; a queued job moves by as many steps as its priority has changed."""


class Landing(msgspec.Struct, frozen=True, gc=False):
    """Where an applied transition leads: the state, and the place in its line."""

    to: State
    stands: Stands
    seconds: float = 0.0


def land(transition: Transition, state: State, cancel_requested: bool) -> Landing:
    """Where a transition leads a job in this state, depending on whether it was asked to stop.

    A job that was asked to stop does not run again: where it would wait for another
    attempt, or had none left, it is cancelled.
    """
    if transition.act is Act.EDIT:
        return _land_edited(transition.edit or Edit(), state)
    to, keep = transition.to or state, transition.keep
    if cancel_requested and transition.to in _UNDONE:
        to = State.CANCELLED
        if transition.keep_cancelled is not None:
            require_seconds("keep_cancelled", transition.keep_cancelled)
            keep = transition.keep_cancelled
    if to.terminal:
        return Landing(to, Stands.AFTER, keep)
    if to is State.QUEUED:
        return Landing(to, Stands.BACK if transition.act is Act.RELEASE else Stands.FRESH)
    if to is State.PROCESSING and transition.act is not Act.EXTEND:
        return Landing(to, Stands.STAYS)
    return Landing(to, Stands.AFTER, transition.delay)


def _land_edited(edit: Edit, state: State) -> Landing:
    seconds = edit.keep if state.terminal else edit.delay
    if seconds is None or (state is State.QUEUED and not seconds):
        return Landing(state, Stands.STAYS)
    return Landing(State.SCHEDULED if state is State.QUEUED else state, Stands.AFTER, seconds)


def keys_of(transition: Transition, landed: State) -> tuple[tuple[str, ...], ...]:
    """The keys that an applied transition writes: those of a job that ends in the DLQ."""
    return transition.keys if landed is State.FAILED else ()


def may_extend(held: int, token: int, deadline: float, now: float) -> bool:
    """Whether who holds a token may extend the lease that a job has now.

    Not once it has lapsed: a sweep may have seen that already.
    """
    return held == token and deadline > now


def kept_until(deadline: float, now: float, seconds: float) -> float:
    """The deadline of a lease after a heartbeat, which never shortens what `extend` has set."""
    return max(deadline, now + seconds)


def may_move(source: QueueKey, target: QueueKey) -> bool:
    """Whether a job may be handed from one queue to another: never across tenants."""
    return source.tenant == target.tenant and source.name != target.name


def rank(ready_at: float, priority: int, ageing: float) -> float:
    """A queued job's place in line: the lowest rank is claimed first.

    One step of priority weighs as much as `ageing` seconds of waiting, so a higher priority
    goes first, equal ones in order of arrival, and the lowest still gets its turn.
    """
    return ready_at - priority * ageing


def arrive(draft: Draft, now: float, ageing: float) -> tuple[State, float]:
    """Where a new job begins: its state, and its place in that state's line."""
    due = draft.run_at if draft.run_at is not None else now + draft.delay
    if due > now:
        return State.SCHEDULED, due
    return State.QUEUED, rank(now, draft.priority, ageing)


def place(
    landing: Landing,
    now: float,
    *,
    at: float,
    old_rank: float,
    old_priority: int,
    priority: int,
    ageing: float,
) -> float:
    """A job's place in the line of its state, given where it stood before."""
    match landing.stands:
        case Stands.FRESH:
            return rank(now, priority, ageing)
        case Stands.BACK:
            return old_rank
        case Stands.AFTER:
            return now + landing.seconds
        case Stands.STAYS:
            shift = (old_priority - priority) * ageing
            return at + shift if landing.to is State.QUEUED else at
        case _:
            assert_never(landing.stands)


# --- what a worker reports -------------------------------------------------------------------


def short_failure(failure: Failure) -> Failure:
    """A failure as a job keeps it, whoever reported it: no part of it is of any length."""
    return msgspec.structs.replace(
        failure,
        type=storable(failure.type[:LONGEST_NAME]),
        message=short_message(failure.message),
        traceback=short_traceback(failure.traceback),
    )


def complete(job: Record, result: bytes | None, policy: Resolved, note: str = "") -> Transition:
    """The work is done."""
    keep = policy.result_ttl
    if _calls_back(job):
        keep = max(keep, CALLBACK_KEPT)
    return Transition(
        job.id,
        Act.COMPLETE,
        State.COMPLETED,
        job.token,
        keep=keep,
        result=result,
        note=short_note(note),
        calls_back=_calls_back(job),
    )


def _calls_back(job: Record) -> bool:
    return job.options.callback_url is not None


def fail(
    job: Record,
    failure: Failure,
    policy: Resolved,
    random: _random.Random,
    delay: float | None = None,
) -> Transition:
    """The attempt failed: again after the backoff, or to the DLQ when attempts are spent."""
    if job.attempts >= policy.max_attempts:
        return bury(job, failure, policy)
    wait = policy.backoff.delay(job.attempts, random) if delay is None else delay
    return Transition(
        job.id,
        Act.FAIL,
        State.FAILING,
        job.token,
        delay=wait,
        keep=policy.keep_cancelled,
        failure=short_failure(failure),
        calls_back=_calls_back(job),
    )


def bury(job: Record, failure: Failure, policy: Resolved) -> Transition:
    """The job can never succeed: to the DLQ, with its keys-if-undelivered."""
    return Transition(
        job.id,
        Act.FAIL,
        State.FAILED,
        job.token,
        keep=policy.keep_failed,
        keep_cancelled=policy.keep_cancelled,
        failure=short_failure(failure),
        keys=job.options.keys_if_undelivered,
        calls_back=_calls_back(job),
    )


def snooze(job: Record, delay: float, policy: Resolved) -> Transition:
    """Run it later; the attempt is given back."""
    return Transition(
        job.id,
        Act.SNOOZE,
        State.SCHEDULED,
        job.token,
        delay=delay,
        keep=policy.keep_cancelled,
        attempts=job.attempts - 1,
        calls_back=_calls_back(job),
    )


def release(job: Record, policy: Resolved, note: str = "") -> Transition:
    """Give the job back, to its old place in the line; the attempt is given back too."""
    return Transition(
        job.id,
        Act.RELEASE,
        State.QUEUED,
        job.token,
        keep=policy.keep_cancelled,
        attempts=job.attempts - 1,
        note=short_note(note),
        calls_back=_calls_back(job),
    )


def stop(job: Record, reason: str, policy: Resolved) -> Transition:
    """The handler itself declares the work no longer wanted."""
    return Transition(
        job.id,
        Act.CANCEL,
        State.CANCELLED,
        job.token,
        keep=policy.keep_cancelled,
        note=short_note(reason),
        calls_back=_calls_back(job),
    )


def extend(job: Record, seconds: float) -> Transition:
    """The handler needs until `seconds` from now."""
    return Transition(job.id, Act.EXTEND, token=job.token, delay=seconds)


def progress(job: Record, data: bytes) -> Transition:
    """The handler says how far it is."""
    return Transition(job.id, Act.PROGRESS, token=job.token, progress=data)


def settle(
    job: Record,
    outcome: Outcome,
    result: bytes | None,
    failure: Failure,
    policy: Resolved,
    random: _random.Random,
) -> Transition:
    """Turn what a handler returned into the one step that follows from it."""
    match outcome:
        case Done(result_ttl=ttl):
            if ttl is not None:
                policy = msgspec.structs.replace(policy, result_ttl=ttl)
            return complete(job, result, policy)
        case Retry(delay=delay):
            return fail(job, failure, policy, random, delay)
        case Snooze(delay=delay):
            return snooze(job, delay, policy)
        case Cancel(reason=reason):
            return stop(job, reason, policy)
        case Dead():
            return bury(job, failure, policy)
        case _:
            assert_never(outcome)


# --- what maintenance finds ------------------------------------------------------------------


def expire(job: Record, policy: Resolved, reason: str = "lease expired") -> Transition:
    """The lease lapsed: a crash costs an attempt, and a poison job ends in the DLQ.

    Guarded by the deadline that was seen, so a heartbeat in between saves the lease.
    """
    reason = short_note(reason)
    failure = Failure(
        act=Act.EXPIRE,
        attempt=job.attempts,
        token=job.token,
        worker=job.worker,
        started_at=job.started_at or 0.0,
        type="LeaseExpired",
        message=f"{reason} (worker {job.worker or 'unknown'})",
    )
    to, keep = State.QUEUED, policy.keep_cancelled
    keys: tuple[tuple[str, ...], ...] = ()
    if job.cancel_requested:
        to = State.CANCELLED
    elif job.attempts >= policy.max_attempts:
        to, keep, keys = State.FAILED, policy.keep_failed, job.options.keys_if_undelivered
    return Transition(
        job.id,
        Act.EXPIRE,
        to,
        job.token,
        deadline=job.deadline,
        keep=keep,
        keep_cancelled=policy.keep_cancelled,
        failure=failure,
        keys=keys,
        note=reason,
        calls_back=_calls_back(job),
    )


# --- what an operator or producer asks -------------------------------------------------------


def cancel(id: str, policy: Resolved, by: str = "") -> Transition:
    """Cancel a job that waits; the store knows whether it has a callback URL."""
    return Transition(
        id,
        Act.CANCEL,
        State.CANCELLED,
        keep=policy.keep_cancelled,
        by=short_note(by),
        calls_back=True,
    )


def request_cancel(id: str, by: str = "") -> Transition:
    """Ask a running job to stop; its handler's signal is set."""
    return Transition(id, Act.REQUEST_CANCEL, by=short_note(by))


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
    to = State.SCHEDULED if delay > 0 else State.QUEUED
    return Transition(
        id, Act.REDRIVE, to, token, delay=delay, attempts=0, edit=change, by=short_note(by)
    )


def edit(id: str, change: Edit, by: str = "", *, seen: Seen | None = None) -> Transition:
    """Change a job that is not processing; with `seen`, only if it is still as it was seen."""
    return Transition(id, Act.EDIT, edit=change, by=short_note(by), seen=seen)


def move(id: str, target: QueueKey, by: str = "") -> Transition:
    """Hand a job to another queue of the same tenant."""
    return Transition(id, Act.MOVE, target=target, by=short_note(by))
