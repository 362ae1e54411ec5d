"""Decides the transition that follows from what a handler returned or raised."""

from __future__ import annotations

import inspect
import logging
import random
from typing import Any

import msgspec

from ackline.core import lifecycle
from ackline.core.config import ResolvedPolicy
from ackline.core.errors import InvalidJob, InvalidPayload
from ackline.core.job import Failure, Record
from ackline.core.lifecycle import Transition
from ackline.core.limits import optional_seconds, require_seconds, some_seconds
from ackline.core.outcome import (
    OUTCOMES,
    Cancel,
    Dead,
    Done,
    Outcome,
    RaisableOutcome,
    Retry,
    Snooze,
)
from ackline.queue import Job, Queue
from ackline.queue.settle import failure_from
from ackline.worker.hooks import NO_HOOKS, Execution, Hooks, run_after_hooks

logger = logging.getLogger("ackline")


class HandlerTimeout(TimeoutError):
    """The handler took longer than its job's timeout."""


class LeaseNotKept(Exception):
    """No heartbeat reached the store in time, so the handler was stopped."""


class NotCommitted(Exception):
    """The transaction in which a job was completed was rolled back."""


def transition_for(
    queue: Queue[Any, Any],
    job: Job[Any],
    policy: ResolvedPolicy,
    result: Any,
    error: BaseException | None,
    hooks: Hooks = NO_HOOKS,
) -> Transition:
    """Decide the transition of a job whose handler returned `result` or raised `error`."""
    record = job.record
    if hooks.after:
        execution = Execution(result, error)
        error = run_after_hooks(job, execution, hooks) or execution.error
        result = execution.result
        if execution.result_ttl is not None:
            ttl = some_seconds("result_ttl", execution.result_ttl)
            policy = msgspec.structs.replace(policy, result_ttl=ttl)
    if error is None and job.settled_in_transaction and not isinstance(result, RaisableOutcome):
        # If it was committed, the job is already completed and this will be rejected.
        error = NotCommitted("the transaction in which it was completed was not committed")
    if error is not None:
        job.exception = error
        return lifecycle.fail(record, failure_from(record, error), policy, queue.random)
    if result is None:
        return lifecycle.complete(record, None, policy)  # as below, but faster
    outcome = result if isinstance(result, OUTCOMES) else Done(result)
    return _outcome_transition(queue, job, outcome, policy, queue.random)


def _outcome_transition(
    queue: Queue[Any, Any],
    job: Job[Any],
    outcome: Outcome,
    policy: ResolvedPolicy,
    random: random.Random,
) -> Transition:
    record = job.record
    if isinstance(outcome, Dead) and outcome.__traceback__ is not None:
        job.exception = outcome  # it was raised
    try:
        encoded = _encode_outcome(queue, outcome)
    except InvalidJob as error:
        # An invalid outcome must not reach the store, which would reject the whole batch.
        job.exception = _explain_coroutine(error, outcome)
        return lifecycle.fail(record, failure_from(record, job.exception), policy, random)
    if isinstance(outcome, Done) and outcome.result_ttl is None:
        return lifecycle.complete(record, encoded, policy)  # as below, but faster
    return lifecycle.settle(
        record, outcome, encoded, _reason_as_failure(record, outcome), policy, random
    )


def _explain_coroutine(error: InvalidJob, outcome: Outcome) -> InvalidJob:
    """The same error, or a clearer one if the handler returned a coroutine."""
    if not isinstance(outcome, Done) or not inspect.iscoroutine(outcome.result):
        return error
    if inspect.getcoroutinestate(outcome.result) == inspect.CORO_CREATED:
        outcome.result.close()  # or Python would warn that it was never awaited
    return InvalidPayload(
        "the handler returned a coroutine that was never awaited: make it async, and every "
        "decorator around it, too"
    )


def _encode_outcome(queue: Queue[Any, Any], outcome: Outcome) -> bytes | None:
    match outcome:
        case Done(result=result, result_ttl=ttl):
            optional_seconds("result_ttl", ttl)
            return queue.serdes.encode_result(result)
        case Retry(delay=delay) | Snooze(delay=delay):
            require_seconds("delay", delay)
            return None
        case Cancel() | Dead():
            return None


def _reason_as_failure(record: Record, outcome: Outcome) -> Failure:
    reason = outcome.reason if isinstance(outcome, (Retry, Cancel, Dead)) else ""
    failure = failure_from(record, str(reason))  # a handler may give a reason of any type
    return msgspec.structs.replace(failure, type=type(outcome).__name__)
