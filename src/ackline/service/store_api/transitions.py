"""Validates transitions of clients: only what the lifecycle and their permissions allow."""

from __future__ import annotations

import msgspec

from ackline.core.config import DEFAULT_SETTINGS, resolve_policy
from ackline.core.errors import InvalidOption
from ackline.core.events import Act
from ackline.core.job import ATTEMPTS_LIMIT, QueueKey
from ackline.core.lifecycle import FIELDS_OF_ACT, Transition, truncate_failure
from ackline.core.limits import require_priority, require_seconds, require_user_key, truncate_note
from ackline.service.auth.caller import Caller
from ackline.service.auth.permissions import Permission, is_settling, permission_for
from ackline.service.store_api.arguments import require_queues, require_size, signed_by
from ackline.stores.contract import find_each_job


def validate_transition(caller: Caller, transition: Transition) -> Transition:
    """A transition as it may be applied; raises if it may not be."""
    caller.require(permission_for(transition))
    _require_legal_values(caller, transition)
    if transition.target is not None:
        require_queues(caller, transition.target)
    failure = transition.failure and truncate_failure(transition.failure)
    transition = msgspec.structs.replace(
        transition, note=truncate_note(transition.note), failure=failure
    )
    # The lease says who settles a job; everything else is signed with the caller's name.
    if is_settling(transition) and not transition.by:
        return transition
    return msgspec.structs.replace(transition, by=signed_by(caller, transition.by))


def restrict_to_jobs(
    caller: Caller, queue: QueueKey, transitions: list[Transition]
) -> list[Transition]:
    """The transitions, with what the jobs themselves decide. Blocks.

    Keys with which their job was not enqueued are left out instead of refused: a worker may still
    have those of a job that was replaced by one of the same id, and its late transition must not
    stop others of the same request. How long a cancelled job is kept is up to its policy, because
    one that is kept for no time is deleted. Only those who may move a job to where it calls back,
    as a relay does, may end it here without its callback.
    """
    runtime = caller.runtime
    if not caller.principal.may(Permission.MOVE) and runtime.callback_tenants.includes(
        queue.tenant
    ):
        transitions = [_with_callback(transition) for transition in transitions]
    ids = [
        transition.id
        for transition in transitions
        if transition.undelivered_keys or _cancels(transition)
    ]
    if not ids:
        return transitions
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

    def as_of_job(transition: Transition) -> Transition:
        keys, policy = own.get(transition.id, ((), None))
        if _cancels(transition) and policy is not None:
            return msgspec.structs.replace(
                transition, keep=policy.keep_cancelled, has_callback=True
            )
        keys_of_job = tuple(key for key in transition.undelivered_keys if key in keys)
        return (
            msgspec.structs.replace(transition, undelivered_keys=keys_of_job)
            if transition.undelivered_keys
            else transition
        )

    return [as_of_job(transition) for transition in transitions]


def _with_callback(transition: Transition) -> Transition:
    if transition.has_callback or "has_callback" not in FIELDS_OF_ACT[transition.act]:
        return transition
    return msgspec.structs.replace(transition, has_callback=True)


def _cancels(transition: Transition) -> bool:
    return transition.act is Act.CANCEL and not is_settling(transition)


def _require_legal_values(caller: Caller, transition: Transition) -> None:
    require_seconds("delay", transition.delay)
    require_seconds("keep", transition.keep)
    if transition.attempts is not None and not 0 <= transition.attempts <= ATTEMPTS_LIMIT:
        raise InvalidOption(f"attempts must be 0 to {ATTEMPTS_LIMIT:,}, not {transition.attempts}")
    require_size(caller, "result", transition.result)
    require_size(caller, "progress", transition.progress)
    for key in transition.undelivered_keys:
        require_user_key(key)
    if (edit := transition.edit) is not None:
        require_size(caller, "payload", edit.payload)
        require_seconds("delay", edit.delay)
        require_seconds("keep", edit.keep)
        if edit.priority is not None:
            require_priority(edit.priority)
