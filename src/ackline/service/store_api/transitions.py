"""Transitions that clients decided: only what the lifecycle allows, by callers that may."""

from __future__ import annotations

import msgspec

from ackline.core.config import DEFAULT_SETTINGS, resolve_policy
from ackline.core.errors import InvalidOption
from ackline.core.events import Act
from ackline.core.job import ATTEMPTS_LIMIT, QueueKey
from ackline.core.lifecycle import Transition, truncate_failure
from ackline.core.limits import require_priority, require_seconds, require_user_key, truncate_note
from ackline.service.auth.caller import Caller
from ackline.service.auth.permissions import is_settling, permission_for
from ackline.service.runtime import Runtime
from ackline.service.store_api.arguments import require_queues, require_size, signed_by
from ackline.stores.contract import find_each_job


def validate_transition(caller: Caller, step: Transition) -> Transition:
    """A transition as it may be applied; raises if it may not."""
    caller.require(permission_for(step))
    _require_legal_values(caller, step)
    if step.target is not None:
        require_queues(caller, step.target)
    failure = step.failure and truncate_failure(step.failure)
    step = msgspec.structs.replace(step, note=truncate_note(step.note), failure=failure)
    # The lease tells who settles a job; all else is signed with the caller's name.
    if is_settling(step) and not step.by:
        return step
    return msgspec.structs.replace(step, by=signed_by(caller, step.by))


def restrict_to_jobs(
    runtime: Runtime, queue: QueueKey, steps: list[Transition]
) -> list[Transition]:
    """The steps, as far as what they carry is for the job itself to say. This blocks.

    Keys that their job was not enqueued with are left out instead of refused: a worker may still
    have those of a job that was replaced by one of the same id, and its late step must not stop
    those that are sent with it. How long a cancelled job is kept is for its policy to say, because
    one that is kept for no time at all is deleted.
    """
    ids = [step.id for step in steps if step.undelivered_keys or _cancels(step)]
    if not ids:
        return steps
    found = runtime.store.describe(queue.tenant, queue.name)
    settings = found[0].settings if found else DEFAULT_SETTINGS
    own = {
        job.id: (
            job.options.keys_if_undelivered,
            resolve_policy(job, settings, runtime.settings.defaults),
        )
        for job in find_each_job(runtime.store, queue, ids)
        if job is not None
    }

    def as_of_job(step: Transition) -> Transition:
        keys, policy = own.get(step.id, ((), None))
        if _cancels(step) and policy is not None:
            return msgspec.structs.replace(step, keep=policy.keep_cancelled, has_callback=True)
        mine = tuple(key for key in step.undelivered_keys if key in keys)
        return (
            msgspec.structs.replace(step, undelivered_keys=mine) if step.undelivered_keys else step
        )

    return [as_of_job(step) for step in steps]


def _cancels(step: Transition) -> bool:
    return step.act is Act.CANCEL and not is_settling(step)


def _require_legal_values(caller: Caller, step: Transition) -> None:
    require_seconds("delay", step.delay)
    require_seconds("keep", step.keep)
    if step.attempts is not None and not 0 <= step.attempts <= ATTEMPTS_LIMIT:
        raise InvalidOption(f"attempts must be 0 to {ATTEMPTS_LIMIT:,}, not {step.attempts}")
    require_size(caller, "result", step.result)
    require_size(caller, "progress", step.progress)
    for key in step.undelivered_keys:
        require_user_key(key)
    if (edit := step.edit) is not None:
        require_size(caller, "payload", edit.payload)
        require_seconds("delay", edit.delay)
        require_seconds("keep", edit.keep)
        if edit.priority is not None:
            require_priority(edit.priority)
