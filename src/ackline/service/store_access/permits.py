"""What is asked of the store: checked here as `Queue` checks it at the other end.

That may be any program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from ackline.config import QueueSettings
from ackline.errors import InvalidOption
from ackline.events import read_cursor
from ackline.job import Draft, State
from ackline.limits import (
    OWN_KEYS,
    require_lease,
    require_name,
    require_others_key,
    require_priority,
    require_seconds,
)
from ackline.queue.reader import first_needed
from ackline.service.caller import Caller, Scope
from ackline.service.problems import Forbidden
from ackline.service.store_access.notes import is_note, require_note
from ackline.service.store_access.scopes import (
    SCOPES,
    Arguments,
    require_one_of,
    require_queues,
    signed,
)
from ackline.service.store_access.sizes import (
    MOST,
    require_ids,
    require_limit,
    require_size,
    require_write,
)
from ackline.service.store_access.steps import permitted_step, with_own_keys
from ackline.stores.base import BESIDE, ClaimRequest, Filter, Hold, WorkerBeat

LATEST = 1e11
"""Seconds since 1970: no moment is later."""

BATCHES = ("drafts", "transitions", "holds", "ids", "keys", "writes")
"""Arguments that are many of something: no more in one request than elsewhere."""


def permit(caller: Caller, verb: str, arguments: Arguments) -> Arguments:
    """The arguments as they may be given to the store; raises if they may not."""
    require_one_of(caller, SCOPES[verb])
    for name in ("queue", "queues", "name"):
        require_queues(caller, arguments.get(name))
    require_limit(arguments.get("limit", 0))
    for name in BATCHES:
        caller.require_batch(len(arguments.get(name, ())))
    require_ids(arguments.get("which"))
    check = _CHECKS.get(verb)
    return {**arguments, **check(caller, arguments)} if check is not None else arguments


def _enqueue(caller: Caller, said: Arguments) -> Arguments:
    for draft in said["drafts"]:
        _require_draft(caller, draft)
    caller.require_own_ids(said["queue"], [draft.id for draft in said["drafts"]])
    for write in said["keys"]:
        if write.key[:3] != (OWN_KEYS, BESIDE, said["queue"].name):
            raise InvalidOption("an enqueue writes keys that stand beside its queue, no others")
        require_write(caller, write)
    return {"drafts": list(map(caller.owned, said["drafts"]))}


def _require_draft(caller: Caller, draft: Draft) -> None:
    require_name("id", draft.id)
    require_name("kind", draft.kind)
    caller.require_kind(draft.kind)
    require_priority(draft.priority)
    require_seconds("delay", draft.delay)
    if draft.run_at is not None and not 0 <= draft.run_at < LATEST:
        raise InvalidOption(f"run_at is in seconds since 1970, not {draft.run_at}")
    require_size(caller, "payload", draft.payload)
    caller.require_keys(draft.options.keys_if_undelivered)
    for key in draft.options.keys_if_undelivered:
        require_others_key(key)


def _claim(caller: Caller, said: Arguments) -> Arguments:
    request: ClaimRequest = said["request"]
    require_name("worker", request.worker)
    require_limit(request.limit)
    for lease in (request.lease, *request.lease_of_kind.values()):
        require_lease(lease)
    kinds = caller.kinds(request.kinds)
    # It asks for so many at most: who wants more claims again.
    limit = min(request.limit, caller.runtime.settings.max_batch)
    return {
        "request": msgspec.structs.replace(request, kinds=kinds, limit=limit),
        **_apply(caller, said),
    }


def _apply(caller: Caller, said: Arguments) -> Arguments:
    steps = [permitted_step(caller, step) for step in said["transitions"]]
    return {"transitions": with_own_keys(caller.runtime.store, said["queue"], steps)}


def _heartbeat(caller: Caller, said: Arguments) -> Arguments:
    beat: WorkerBeat = said["beat"]
    require_name("worker", beat.id)
    require_seconds("ttl", beat.ttl)
    holds: list[Hold] = said["holds"]
    for hold in holds:
        require_seconds("seconds", hold.seconds)
    if not all(caller.sees(said["queue"], [hold.id for hold in holds])):
        raise Forbidden("some of these leases are for kinds that your token is not for")
    return {}


def _leases(_caller: Caller, said: Arguments) -> Arguments:
    if said["worker"] is not None:
        require_name("worker", said["worker"])
    return {}


def _page(caller: Caller, said: Arguments) -> Arguments:
    which: Filter = said["which"]
    if which.states != {State.PROCESSING}:
        # What is leased, a consumer may see one way or the other.
        caller.require(Scope.READ)
    return {}


def _configure(caller: Caller, said: Arguments) -> Arguments:
    settings: QueueSettings = said["settings"]
    expected: QueueSettings | None = said["expected"]
    # A worker tells what its handlers were given; the rest of the settings is not its own.
    published = expected is not None and settings == msgspec.structs.replace(
        expected, kinds=settings.kinds
    )
    require_one_of(caller, {Scope.CONSUME, Scope.ADMIN} if published else {Scope.ADMIN})
    if not published or not _changes_own_kinds(caller, settings, expected):
        caller.require_all_kinds()
    return {} if published and not said["by"] else {"by": signed(caller, said["by"])}


def _changes_own_kinds(caller: Caller, new: QueueSettings, old: QueueSettings | None) -> bool:
    before = old.kinds if old is not None else {}
    kinds = new.kinds.keys() | before.keys()
    return all(caller.may_touch(kind) for kind in kinds if new.kinds.get(kind) != before.get(kind))


def _prune(caller: Caller, said: Arguments) -> Arguments:
    """What a reader still needs is kept, whoever the caller believes to be reading."""
    said_by_caller, needed = said["keep_from"], first_needed(caller.runtime.store, said["queue"])
    cursors = [cursor for cursor in (said_by_caller, needed) if cursor is not None]
    return {"keep_from": min(cursors, key=read_cursor, default=None)}


def _purge(caller: Caller, said: Arguments) -> Arguments:
    which: Filter = said["which"]
    return {
        "which": msgspec.structs.replace(which, kinds=caller.kinds(which.kinds)),
        "by": signed(caller, said["by"]),
    }


def _drop(caller: Caller, said: Arguments) -> Arguments:
    caller.require_all_kinds()
    return {"by": signed(caller, said["by"])}


def _listen(caller: Caller, said: Arguments) -> Arguments:
    if not 1 <= len(said["queues"]) <= MOST:
        raise InvalidOption(f"a listener hears 1 to {MOST:,} queues")
    return {"kinds": caller.kinds(said["kinds"])}


def _write_keys(caller: Caller, said: Arguments) -> Arguments:
    for write in said["writes"]:
        require_write(caller, write)
        if is_note(write):
            require_note(caller, write)
        else:
            caller.require(Scope.ADMIN)
            caller.require_all_queues()
    return {}


_CHECKS: Mapping[str, Callable[[Caller, Arguments], Arguments]] = {
    "enqueue": _enqueue,
    "claim": _claim,
    "apply": _apply,
    "heartbeat": _heartbeat,
    "leases": _leases,
    "page": _page,
    "configure": _configure,
    "prune": _prune,
    "purge": _purge,
    "drop": _drop,
    "listen": _listen,
    "write_keys": _write_keys,
}
