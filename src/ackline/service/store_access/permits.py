"""Arguments for the store, checked here as `Queue` checks them.

The client may be any program, so it cannot be relied on to use `Queue`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from ackline.config import QueueSettings
from ackline.errors import InvalidOption
from ackline.events import read_cursor
from ackline.job import Draft
from ackline.limits import (
    LONGEST_NAME,
    OWN_KEYS,
    require_free_id,
    require_lease,
    require_name,
    require_others_key,
    require_priority,
    require_seconds,
    storable,
)
from ackline.queue.reader import first_needed
from ackline.service.auth.authorization import OF_TOPICS, OF_VERBS, Access, Reach, access_of_key
from ackline.service.auth.caller import Caller
from ackline.service.store_access.arguments import Arguments, require_queues, signed
from ackline.service.store_access.notes import require_note
from ackline.service.store_access.sizes import (
    MOST_NAMES,
    require_ids,
    require_limit,
    require_size,
    require_write,
)
from ackline.service.store_access.steps import as_of_jobs, permitted_step
from ackline.stores.base import ANSWER_BYTES, BESIDE, ClaimRequest, Filter, Hold, WorkerBeat

LATEST = 1e11
"""Seconds since 1970; moments must be before this one."""

BATCHES = ("drafts", "transitions", "holds", "ids", "keys", "writes")
"""Arguments that are batches: no larger in one request than on other routes."""


def permit(caller: Caller, verb: str, arguments: Arguments) -> Arguments:
    """The arguments as they may be given to the store; raises if they may not."""
    caller.require(*OF_VERBS[verb])
    for name in ("queue", "queues", "name"):
        require_queues(caller, arguments.get(name))
    require_limit(arguments.get("limit", 0))
    for name in BATCHES:
        caller.require_batch(len(arguments.get(name, ())))
    require_ids(arguments.get("which"))
    if "max_bytes" in arguments:
        arguments["max_bytes"] = min(arguments["max_bytes"] or ANSWER_BYTES, ANSWER_BYTES)
    check = _CHECKS.get(verb)
    return {**arguments, **check(caller, arguments)} if check is not None else arguments


def _enqueue(caller: Caller, given: Arguments) -> Arguments:
    for draft in given["drafts"]:
        _require_draft(caller, draft)
    caller.require_own_ids(given["queue"], [draft.id for draft in given["drafts"]])
    for write in given["keys"]:
        if write.key[:3] != (OWN_KEYS, BESIDE, given["queue"].name):
            raise InvalidOption("an enqueue writes keys that stand beside its queue, no others")
        require_write(caller, write)
    return {"drafts": list(map(caller.owned, given["drafts"]))}


def _require_draft(caller: Caller, draft: Draft) -> None:
    require_name("id", draft.id)
    require_free_id(draft.id, draft.options.request)
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


def _claim(caller: Caller, given: Arguments) -> Arguments:
    request: ClaimRequest = given["request"]
    require_name("worker", request.worker)
    require_limit(request.limit)
    for lease in (request.lease, *request.lease_of_kind.values()):
        require_lease(lease)
    if request.ignore_group_limit:
        caller.require(Access.CONFIGURE)
    kinds = caller.kinds(request.kinds)
    # Limits are maximums: a client that wants more claims again.
    limit = min(request.limit, caller.runtime.settings.max_batch)
    most = min(request.max_bytes or ANSWER_BYTES, ANSWER_BYTES)
    return {
        "request": msgspec.structs.replace(request, kinds=kinds, limit=limit, max_bytes=most),
        **_apply(caller, given),
    }


def _apply(caller: Caller, given: Arguments) -> Arguments:
    steps = [permitted_step(caller, step) for step in given["transitions"]]
    return {"transitions": as_of_jobs(caller.runtime, given["queue"], steps)}


def _heartbeat(_caller: Caller, given: Arguments) -> Arguments:
    beat: WorkerBeat = given["beat"]
    require_name("worker", beat.id)
    require_seconds("ttl", beat.ttl)
    holds: list[Hold] = given["holds"]
    for hold in holds:
        require_seconds("seconds", hold.seconds)
    return {"beat": msgspec.structs.replace(beat, host=storable(beat.host[:LONGEST_NAME]))}


def _leases(_caller: Caller, given: Arguments) -> Arguments:
    if given["worker"] is not None:
        require_name("worker", given["worker"])
    return {}


def _describe(caller: Caller, given: Arguments) -> Arguments:
    if given["name"] is None:
        caller.require(Access.READ_QUEUES)
    return {}


def _configure(caller: Caller, given: Arguments) -> Arguments:
    settings: QueueSettings = given["settings"]
    expected: QueueSettings | None = given["expected"]
    # A worker publishes the policies of its handlers; other settings are not its own.
    published = expected is not None and settings == msgspec.structs.replace(
        expected, kinds=settings.kinds
    )
    caller.require(Access.PUBLISH_POLICIES if published else Access.CONFIGURE)
    if not _changes_own_kinds(caller, settings, expected):
        caller.require_reach(Reach.ALL_KINDS)
    return {} if published and not given["by"] else {"by": signed(caller, given["by"])}


def _changes_own_kinds(caller: Caller, new: QueueSettings, old: QueueSettings | None) -> bool:
    before = old.kinds if old is not None else {}
    kinds = new.kinds.keys() | before.keys()
    changed = (kind for kind in kinds if new.kinds.get(kind) != before.get(kind))
    return all(map(caller.principal.may_use_kind, changed))


def _prune(caller: Caller, given: Arguments) -> Arguments:
    """Keep what any reader still needs, also readers that the caller does not know of."""
    requested, needed = given["keep_from"], first_needed(caller.runtime.store, given["queue"])
    cursors = [cursor for cursor in (requested, needed) if cursor is not None]
    return {"keep_from": min(cursors, key=read_cursor, default=None)}


def _page(caller: Caller, given: Arguments) -> Arguments:
    # The store is not asked for others: whether there is a next page would tell of them.
    which: Filter = given["which"]
    return {"which": msgspec.structs.replace(which, kinds=caller.kinds(which.kinds))}


def _purge(caller: Caller, given: Arguments) -> Arguments:
    return {**_page(caller, given), "by": signed(caller, given["by"])}


def _drop(caller: Caller, given: Arguments) -> Arguments:
    return {"by": signed(caller, given["by"])}


def _listen(caller: Caller, given: Arguments) -> Arguments:
    queues = list(dict.fromkeys(given["queues"]))
    if len(queues) > MOST_NAMES:
        raise InvalidOption(f"a listener hears at most {MOST_NAMES:,} queues, not {len(queues):,}")
    if len(given["kinds"] or ()) > MOST_NAMES:
        raise InvalidOption(f"a listener asks for at most {MOST_NAMES:,} kinds")
    caller.require(Access.READ_EVENTS, OF_TOPICS[given["topic"]])
    return {"queues": queues, "kinds": caller.kinds(given["kinds"])}


def _read_keys(caller: Caller, given: Arguments) -> Arguments:
    if not caller.principal.may_read_keys(given["prefix"]):
        caller.require(access_of_key(given["prefix"]))
    return {}


def _write_keys(caller: Caller, given: Arguments) -> Arguments:
    for write in given["writes"]:
        require_write(caller, write)
        if write.key[:1] == (OWN_KEYS,):
            require_note(caller, write)
        else:
            caller.require(Access.WRITE_KEYS)
    return {}


def _queues(caller: Caller, given: Arguments) -> Arguments:
    caller.require_batch(len(given["queues"]))
    return {}


_CHECKS: Mapping[str, Callable[[Caller, Arguments], Arguments]] = {
    "enqueue": _enqueue,
    "claim": _claim,
    "apply": _apply,
    "heartbeat": _heartbeat,
    "leases": _leases,
    "page": _page,
    "describe": _describe,
    "read_keys": _read_keys,
    "configure": _configure,
    "prune": _prune,
    "purge": _purge,
    "drop": _drop,
    "listen": _listen,
    "workers": _queues,
    "next_due": _queues,
    "write_keys": _write_keys,
}
