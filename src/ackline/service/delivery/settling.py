"""Settling jobs for clients: one by its receipt or its id, or many in one step."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, assert_never

import msgspec
from msgspec import UNSET, UnsetType

from ackline.aio import AsyncQueue
from ackline.core import lifecycle
from ackline.core.errors import AcklineError, JobNotFound, LeaseLost
from ackline.core.events import Act
from ackline.core.job import Failure, Record, State
from ackline.core.lifecycle import Transition, Verdict
from ackline.queue import Job, Queue
from ackline.service.auth.caller import Caller
from ackline.service.http.parameters import Seconds
from ackline.service.http.problems import Problem, Unprocessable, problem_of
from ackline.service.http.request_body import Body, none_if_null
from ackline.stores.contract import find_each_job

if TYPE_CHECKING:
    from ackline.service.runtime import Runtime

MAX_TOKEN = 2**63 - 1


class LeaseHandle:
    """The lease of a job that a client's request refers to."""

    def __init__(self, runtime: Runtime, queue: AsyncQueue[Any, Any], record: Record) -> None:
        self._runtime = runtime
        self._key = queue.sync.key
        self.record = record
        self.job: Job[Any] = queue.sync.wrap(record)

    @classmethod
    async def find(
        cls, caller: Caller, queue: AsyncQueue[Any, Any], id: str, receipt: str | None
    ) -> LeaseHandle:
        """Find a lease by its receipt; without one, the lease that the job has now.

        Without a receipt, deliveries cannot be distinguished: anyone with the id settles the job.
        """
        runtime, key = caller.runtime, queue.sync.key
        token = None if receipt is None else token_from_client(receipt, "receipt")
        record = None if token is None else runtime.in_flight.find(key, id, token)
        if record is None:
            record = (await runtime.call(runtime.store.get, key, [id]))[0]
        if record is None or not caller.principal.can_see(record):
            raise JobNotFound(key.name, id)
        if token is not None:
            record = with_token(record, token)
        elif record.state is not State.PROCESSING:
            raise LeaseLost(id, record.state)
        return cls(runtime, queue, record)

    async def default_lease(self, queue: AsyncQueue[Any, Any]) -> float:
        """The default lease of this job, in seconds."""
        policy = await self._runtime.call(queue.sync.policies.of, self.record)
        return policy.lease

    async def settle(self, settling: Awaitable[None]) -> None:
        """Settle the job, which frees capacity in the window of the stream that sent it."""
        with self._forgotten_if_lost():
            await settling
        self._forget()

    async def extend(self, extending: Awaitable[None], seconds: float) -> None:
        """Extend the lease, to `seconds` from now."""
        with self._forgotten_if_lost():
            await extending
        self._runtime.in_flight.extended(self._key, self.record.id, seconds)

    @contextmanager
    def _forgotten_if_lost(self) -> Iterator[None]:
        try:
            yield
        except LeaseLost:
            self._forget()
            raise

    def _forget(self) -> None:
        self._runtime.in_flight.settled(self._key, self.record.id, self.record.token)


def with_token(record: Record, token: int) -> Record:
    """A job as the holder of this token had it, who may settle again after losing the lease."""
    ended = (failure.attempt for failure in record.history if failure.token == token)
    attempt = next(ended, record.attempts)
    return msgspec.structs.replace(record, token=token, attempts=attempt)


def token_for_client(record: Record) -> str:
    """A lease's token for clients: a string, because their numbers may be too small for it."""
    return str(record.token)


def token_from_client(text: str, at: str) -> int:
    """The token that a client sent back, in the field named by the last part of `at`."""
    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        name = at.rpartition(".")[2]
        raise Unprocessable(
            f"{text!r} is not a {name}: send the one that came with the job. Nothing was changed",
            at=at,
        )
    return min(int(text), MAX_TOKEN)


class ErrorBody(Body):
    """Why an attempt failed."""

    type: str = "Error"
    message: str = ""
    traceback: str = ""


class OutcomeBody(Body):
    """The outcome of one job, by its id and the token of its lease."""

    id: str
    token: str
    outcome: Literal["complete", "fail", "bury", "snooze", "release", "cancel", "progress"]
    result: msgspec.Raw | UnsetType = UNSET
    """The result, with `complete`; the progress, with `progress`."""
    error: ErrorBody | str | None = None
    delay: Seconds | None = None
    """With `fail`, instead of the backoff; with `snooze`, how long."""


class SettleResult(msgspec.Struct):
    """Whether an outcome was applied; if not, the problem."""

    id: str
    ok: bool
    state: State | None
    problem: Problem | UnsetType = UNSET


async def settle_all(
    caller: Caller, queue: AsyncQueue[Any, Any], outcomes: list[OutcomeBody]
) -> list[SettleResult]:
    """Apply all outcomes in one step; each is fenced by its own token."""
    tokens = [
        token_from_client(outcome.token, f"$.outcomes[{at}].token")
        for at, outcome in enumerate(outcomes)
    ]
    runtime, key = caller.runtime, queue.sync.key
    jobs = [
        runtime.in_flight.find(key, outcome.id, token)
        for outcome, token in zip(outcomes, tokens, strict=True)
    ]
    results = await runtime.call(_settle, caller, queue.sync, outcomes, tokens, jobs)
    for outcome, token, result in zip(outcomes, tokens, results, strict=True):
        if outcome.outcome != "progress" or not result.ok:
            runtime.in_flight.settled(key, outcome.id, token)
    return results


def _settle(
    caller: Caller,
    queue: Queue[Any, Any],
    outcomes: list[OutcomeBody],
    tokens: list[int],
    jobs: list[Record | None],
) -> list[SettleResult]:
    _read_missing(queue, outcomes, jobs)
    transitions: list[Transition] = []
    results: list[SettleResult | None] = []
    for outcome, token, record in zip(outcomes, tokens, jobs, strict=True):
        try:
            if record is None or not caller.principal.can_see(record):
                raise JobNotFound(queue.name, outcome.id)
            transitions.append(_transition(queue, outcome, with_token(record, token)))
            results.append(None)
        except AcklineError as error:
            results.append(_failed_result(outcome.id, error, None))
    verdicts = queue.apply(transitions) if transitions else []
    caller.runtime.metrics.job_timings.settled(queue.key, transitions, verdicts)
    applied = iter(verdicts)
    return [
        result or _result(outcome.id, next(applied))
        for outcome, result in zip(outcomes, results, strict=True)
    ]


def _read_missing(
    queue: Queue[Any, Any], outcomes: list[OutcomeBody], jobs: list[Record | None]
) -> None:
    """Read the jobs that this process did not send with these tokens."""
    missing = [index for index, record in enumerate(jobs) if record is None]
    if missing:
        found = find_each_job(queue.store, queue.key, [outcomes[index].id for index in missing])
        for index, record in zip(missing, found, strict=True):
            jobs[index] = record and record.without_data()


def _transition(queue: Queue[Any, Any], outcome: OutcomeBody, job: Record) -> Transition:
    policy = queue.policies.of(job)
    match outcome.outcome:
        case "complete":
            return lifecycle.complete(
                job, queue.serdes.encode_result(none_if_null(outcome.result)), policy
            )
        case "fail":
            return lifecycle.fail(job, _failure(outcome, job), policy, queue.random, outcome.delay)
        case "bury":
            return lifecycle.bury(job, _failure(outcome, job), policy)
        case "snooze":
            return lifecycle.snooze(job, outcome.delay or 0.0, policy)
        case "release":
            return lifecycle.release(job, policy)
        case "cancel":
            return lifecycle.cancel_running(
                job, _error(outcome).message or "cancelled by its worker", policy
            )
        case "progress":
            return lifecycle.progress(
                job, queue.serdes.encode_progress(none_if_null(outcome.result))
            )
        case _:
            assert_never(outcome.outcome)


def _error(outcome: OutcomeBody) -> ErrorBody:
    if isinstance(outcome.error, ErrorBody):
        return outcome.error
    return ErrorBody(message=outcome.error or "")


def _failure(outcome: OutcomeBody, job: Record) -> Failure:
    error = _error(outcome)
    return Failure(
        act=Act.FAIL,
        attempt=job.attempts,
        type=error.type or "Error",
        message=error.message,
        traceback=error.traceback,
    )


def _result(id: str, verdict: Verdict) -> SettleResult:
    if verdict.applied:
        return SettleResult(id, True, verdict.state)
    return _failed_result(id, LeaseLost(id, verdict.state), verdict.state)


def _failed_result(id: str, error: AcklineError, state: State | None) -> SettleResult:
    return SettleResult(id, False, state, problem_of(error))
