"""Validates the arguments of store methods as `Queue` does: the client may be any program."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from ackline.core.config import QueueSettings
from ackline.core.errors import InvalidOption
from ackline.core.events import read_cursor
from ackline.core.job import Draft
from ackline.core.limits import (
    MAX_NAME_BYTES,
    RESERVED_KEY_PREFIX,
    escape_invalid_unicode,
    reject_reserved_id,
    require_lease,
    require_name,
    require_priority,
    require_seconds,
    require_user_key,
)
from ackline.queue.journal.reader import oldest_needed_cursor
from ackline.service.auth.caller import Caller
from ackline.service.auth.permissions import (
    PERMISSION_OF_TOPIC,
    PERMISSIONS_OF_VERB,
    Impact,
    Permission,
    permission_for_key,
)
from ackline.service.store_api.arguments import (
    MAX_LISTEN_QUEUES,
    Arguments,
    require_ids,
    require_limit,
    require_queues,
    require_size,
    require_write,
    signed_by,
)
from ackline.service.store_api.reserved_keys import require_reserved_write
from ackline.service.store_api.transitions import restrict_to_jobs, validate_transition
from ackline.stores.contract import (
    MAX_ANSWER_BYTES,
    ClaimRequest,
    Filter,
    Heartbeat,
    LeaseExtension,
    queue_key,
)

MAX_TIMESTAMP = 1e11
"""Timestamps, in seconds since 1970, must be below this."""

BATCHES = ("drafts", "transitions", "extensions", "ids", "keys", "writes")
"""Arguments that are batches, limited by `max_batch`."""


def validate(caller: Caller, verb: str, arguments: Arguments) -> Arguments:
    """The arguments as they may be passed to the store; raises if they may not be."""
    caller.require(*PERMISSIONS_OF_VERB[verb])
    for name in ("queue", "queues", "name"):
        require_queues(caller, arguments.get(name))
    require_limit(arguments.get("limit", 0))
    for name in BATCHES:
        caller.require_batch(len(arguments.get(name, ())))
    require_ids(arguments.get("job_filter"))
    if "max_bytes" in arguments:
        arguments["max_bytes"] = min(arguments["max_bytes"] or MAX_ANSWER_BYTES, MAX_ANSWER_BYTES)
    check = _VALIDATORS.get(verb)
    return {**arguments, **check(caller, arguments)} if check is not None else arguments


def _enqueue(caller: Caller, given: Arguments) -> Arguments:
    for draft in given["drafts"]:
        _require_draft(caller, draft)
    caller.require_replaceable_blocking(given["queue"], [draft.id for draft in given["drafts"]])
    for write in given["keys"]:
        if write.key[:3] != queue_key(given["queue"]):
            raise InvalidOption("an enqueue can only write reserved keys of its queue")
        require_write(caller, write)
    return {"drafts": list(map(caller.limited_to_kinds, given["drafts"]))}


def _require_draft(caller: Caller, draft: Draft) -> None:
    require_name("id", draft.id)
    reject_reserved_id(draft.id, draft.options.request)
    require_name("kind", draft.kind)
    caller.require_kind(draft.kind)
    require_priority(draft.priority)
    require_seconds("delay", draft.delay)
    if draft.run_at is not None and not 0 <= draft.run_at < MAX_TIMESTAMP:
        raise InvalidOption(f"run_at must be in seconds since 1970, not {draft.run_at}")
    require_size(caller, "payload", draft.payload)
    caller.require_undelivered_keys(draft.options.keys_if_undelivered)
    for key in draft.options.keys_if_undelivered:
        require_user_key(key)


def _claim(caller: Caller, given: Arguments) -> Arguments:
    request: ClaimRequest = given["request"]
    require_name("worker", request.worker)
    require_limit(request.limit)
    for lease in (request.lease, *request.lease_of_kind.values()):
        require_lease(lease)
    if request.ignore_group_limit:
        caller.require(Permission.CONFIGURE)
    kinds = caller.kinds(request.kinds)
    # The limits are maximums: a client that wants more claims again.
    limit = min(request.limit, caller.runtime.settings.max_batch)
    max_bytes = min(request.max_bytes or MAX_ANSWER_BYTES, MAX_ANSWER_BYTES)
    return {
        "request": msgspec.structs.replace(request, kinds=kinds, limit=limit, max_bytes=max_bytes),
        **_apply(caller, given),
    }


def _apply(caller: Caller, given: Arguments) -> Arguments:
    transitions = [validate_transition(caller, transition) for transition in given["transitions"]]
    return {"transitions": restrict_to_jobs(caller, given["queue"], transitions)}


def _heartbeat(_caller: Caller, given: Arguments) -> Arguments:
    extensions: list[LeaseExtension] = given["extensions"]
    for extension in extensions:
        require_seconds("seconds", extension.seconds)
    heartbeat: Heartbeat | None = given["heartbeat"]
    if heartbeat is None:
        return {}
    require_name("worker", heartbeat.id)
    require_seconds("ttl", heartbeat.ttl)
    host = escape_invalid_unicode(heartbeat.host[:MAX_NAME_BYTES])
    return {"heartbeat": msgspec.structs.replace(heartbeat, host=host)}


def _leases(_caller: Caller, given: Arguments) -> Arguments:
    if given["worker"] is not None:
        require_name("worker", given["worker"])
    return {}


def _describe(caller: Caller, given: Arguments) -> Arguments:
    if given["name"] is None:
        caller.require(Permission.READ_QUEUES)
    return {}


def _configure(caller: Caller, given: Arguments) -> Arguments:
    settings: QueueSettings = given["settings"]
    expected: QueueSettings | None = given["expected"]
    # A worker only publishes the policies of its handlers.
    published = expected is not None and settings == msgspec.structs.replace(
        expected, kinds=settings.kinds
    )
    caller.require(Permission.PUBLISH_POLICIES if published else Permission.CONFIGURE)
    if not _changes_own_kinds(caller, settings, expected):
        caller.require_unrestricted(Impact.ALL_KINDS)
    return {} if published and not given["by"] else {"by": signed_by(caller, given["by"])}


def _changes_own_kinds(caller: Caller, new: QueueSettings, old: QueueSettings | None) -> bool:
    before = old.kinds if old is not None else {}
    kinds = new.kinds.keys() | before.keys()
    changed = (kind for kind in kinds if new.kinds.get(kind) != before.get(kind))
    return all(map(caller.principal.may_use_kind, changed))


def _prune(caller: Caller, given: Arguments) -> Arguments:
    """Keep what any reader still needs, including readers that the caller cannot see."""
    requested, needed = (
        given["needed_after"],
        oldest_needed_cursor(caller.runtime.store, given["queue"]),
    )
    cursors = [cursor for cursor in (requested, needed) if cursor is not None]
    return {"needed_after": min(cursors, key=read_cursor, default=None)}


def _page(caller: Caller, given: Arguments) -> Arguments:
    # Other kinds are not read: whether there is a next page would reveal them.
    job_filter: Filter = given["job_filter"]
    kinds = caller.kinds(job_filter.kinds)
    return {"job_filter": msgspec.structs.replace(job_filter, kinds=kinds)}


def _purge(caller: Caller, given: Arguments) -> Arguments:
    return {**_page(caller, given), "by": signed_by(caller, given["by"])}


def _drop(caller: Caller, given: Arguments) -> Arguments:
    return {"by": signed_by(caller, given["by"])}


def _listen(caller: Caller, given: Arguments) -> Arguments:
    queues = list(dict.fromkeys(given["queues"]))
    if len(queues) > MAX_LISTEN_QUEUES:
        raise InvalidOption(
            f"a listener may have {MAX_LISTEN_QUEUES:,} queues, not {len(queues):,}"
        )
    if len(given["kinds"] or ()) > MAX_LISTEN_QUEUES:
        raise InvalidOption(f"a listener may have {MAX_LISTEN_QUEUES:,} kinds")
    caller.require(Permission.READ_EVENTS, PERMISSION_OF_TOPIC[given["topic"]])
    return {"queues": queues, "kinds": caller.kinds(given["kinds"])}


def _read_keys(caller: Caller, given: Arguments) -> Arguments:
    if not caller.principal.may_read_keys(given["prefix"]):
        caller.require(permission_for_key(given["prefix"]))
    return {}


def _write_keys(caller: Caller, given: Arguments) -> Arguments:
    for write in given["writes"]:
        require_write(caller, write)
        if write.key[:1] == (RESERVED_KEY_PREFIX,):
            require_reserved_write(caller, write)
        else:
            caller.require(Permission.WRITE_KEYS)
    return {}


def _queues(caller: Caller, given: Arguments) -> Arguments:
    caller.require_batch(len(given["queues"]))
    return {}


_VALIDATORS: Mapping[str, Callable[[Caller, Arguments], Arguments]] = {
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
