"""Transitions that clients decided: only what the lifecycle allows, by callers that may."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from ackline.errors import InvalidOption
from ackline.job import MOST_ATTEMPTS, QueueKey
from ackline.lifecycle import Transition
from ackline.limits import require_others_key, require_priority, require_seconds, short_note
from ackline.queue.failures import shortened
from ackline.service.caller import Caller, Scope
from ackline.service.store_access.scopes import HELD, STEPS, require_queues, signed
from ackline.service.store_access.sizes import require_size
from ackline.stores.base import Store, find_each


def permitted_step(caller: Caller, step: Transition) -> Transition:
    """A transition as it may be applied; raises if it may not."""
    held = step.token is not None and step.act in HELD
    caller.require(Scope.CONSUME if held else STEPS[step.act])
    _require_possible(caller, step)
    if step.target is not None:
        require_queues(caller, step.target)
    failure = step.failure and shortened(step.failure)
    step = msgspec.structs.replace(step, note=short_note(step.note), failure=failure)
    # The lease tells who settles a held job; all else is signed with the caller's name.
    if held and not step.by:
        return step
    return msgspec.structs.replace(step, by=signed(caller, step.by))


def with_own_keys(store: Store, queue: QueueKey, steps: list[Transition]) -> list[Transition]:
    """The steps, each writing only keys that its job was enqueued with. This blocks.

    Other keys are left out instead of refused: a worker may still have those of a job that was
    replaced by one of the same id, and its late step must not stop those that are sent with it.
    """
    ids = [step.id for step in steps if step.keys]
    if not ids:
        return steps
    own = {
        job.id: job.options.keys_if_undelivered
        for job in find_each(store, queue, ids)
        if job is not None
    }
    return [_with_keys_of(own.get(step.id, ()), step) if step.keys else step for step in steps]


def _with_keys_of(own: Collection[tuple[str, ...]], step: Transition) -> Transition:
    return msgspec.structs.replace(step, keys=tuple(key for key in step.keys if key in own))


def _require_possible(caller: Caller, step: Transition) -> None:
    require_seconds("delay", step.delay)
    require_seconds("keep", step.keep)
    if step.attempts is not None and not 0 <= step.attempts <= MOST_ATTEMPTS:
        raise InvalidOption(f"attempts must be 0 to {MOST_ATTEMPTS:,}, not {step.attempts}")
    require_size(caller, "result", step.result)
    require_size(caller, "progress", step.progress)
    for key in step.keys:
        require_others_key(key)
    if (edit := step.edit) is not None:
        require_size(caller, "payload", edit.payload)
        require_seconds("delay", edit.delay)
        require_seconds("keep", edit.keep)
        if edit.priority is not None:
            require_priority(edit.priority)
