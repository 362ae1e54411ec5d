"""Transitions that clients decided: only what the lifecycle allows, by callers that may."""

from __future__ import annotations

import msgspec

from ackline.config import DEFAULT_SETTINGS, resolve
from ackline.errors import InvalidOption
from ackline.events import Act
from ackline.job import MOST_ATTEMPTS, QueueKey
from ackline.lifecycle import Transition, short_failure
from ackline.limits import require_others_key, require_priority, require_seconds, short_note
from ackline.service.auth.authorization import access_of, is_settling
from ackline.service.auth.caller import Caller
from ackline.service.runtime import Runtime
from ackline.service.store_access.arguments import require_queues, signed
from ackline.service.store_access.sizes import require_size
from ackline.stores.base import find_each


def permitted_step(caller: Caller, step: Transition) -> Transition:
    """A transition as it may be applied; raises if it may not."""
    caller.require(access_of(step))
    _require_possible(caller, step)
    if step.target is not None:
        require_queues(caller, step.target)
    failure = step.failure and short_failure(step.failure)
    step = msgspec.structs.replace(step, note=short_note(step.note), failure=failure)
    # The lease tells who settles a job; all else is signed with the caller's name.
    if is_settling(step) and not step.by:
        return step
    return msgspec.structs.replace(step, by=signed(caller, step.by))


def as_of_jobs(runtime: Runtime, queue: QueueKey, steps: list[Transition]) -> list[Transition]:
    """The steps, as far as what they carry is for the job itself to say. This blocks.

    Keys that their job was not enqueued with are left out instead of refused: a worker may still
    have those of a job that was replaced by one of the same id, and its late step must not stop
    those that are sent with it. How long a cancelled job is kept is for its policy to say, because
    one that is kept for no time at all is deleted.
    """
    ids = [step.id for step in steps if step.keys or _cancels(step)]
    if not ids:
        return steps
    found = runtime.store.describe(queue.tenant, queue.name)
    settings = found[0].settings if found else DEFAULT_SETTINGS
    own = {
        job.id: (job.options.keys_if_undelivered, resolve(job, settings, runtime.settings.defaults))
        for job in find_each(runtime.store, queue, ids)
        if job is not None
    }

    def as_of_job(step: Transition) -> Transition:
        keys, policy = own.get(step.id, ((), None))
        if _cancels(step) and policy is not None:
            return msgspec.structs.replace(step, keep=policy.keep_cancelled, calls_back=True)
        mine = tuple(key for key in step.keys if key in keys)
        return msgspec.structs.replace(step, keys=mine) if step.keys else step

    return [as_of_job(step) for step in steps]


def _cancels(step: Transition) -> bool:
    return step.act is Act.CANCEL and not is_settling(step)


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
