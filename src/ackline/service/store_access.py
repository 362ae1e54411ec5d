"""What a caller may ask of the store itself, verb by verb, and what it gets to see.

The other end may be any program, so what it says is checked here as `Queue` checks it there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import msgspec

from ackline.config import QueueSettings
from ackline.errors import InvalidOption, PayloadTooLarge
from ackline.events import Act, Event
from ackline.job import MOST_ATTEMPTS, Draft, QueueKey, Record, State
from ackline.lifecycle import FENCED, LEGAL, Transition, Verdict
from ackline.limits import (
    LONGEST_NAME,
    OWN_KEYS,
    require_name,
    require_others_key,
    require_priority,
    require_seconds,
)
from ackline.service.caller import Caller, Scope
from ackline.service.problems import Forbidden
from ackline.stores.base import (
    BESIDE,
    Claimed,
    ClaimRequest,
    Filter,
    Hold,
    Key,
    KeyWrite,
    Page,
    QueueInfo,
    StoreInfo,
    WorkerBeat,
)

MOST = 10_000
"""Jobs, events or keys that one answer has at most."""

MOST_PARTS = 64
"""Of one key."""

LATEST = 1e11
"""Seconds since 1970: no moment is later."""

Arguments = dict[str, Any]

EVERYONE = frozenset(Scope)

SCOPES: Mapping[str, frozenset[Scope]] = {
    "info": EVERYONE,
    "describe": EVERYONE,
    "enqueue": frozenset({Scope.PRODUCE}),
    "claim": frozenset({Scope.CONSUME}),
    "heartbeat": frozenset({Scope.CONSUME}),
    "promote": frozenset({Scope.CONSUME, Scope.ADMIN}),
    "prune": frozenset({Scope.CONSUME, Scope.ADMIN}),
    "leases": frozenset({Scope.CONSUME, Scope.READ}),
    "workers": frozenset({Scope.CONSUME, Scope.READ}),
    "get": frozenset({Scope.CONSUME, Scope.READ}),
    "listen": frozenset({Scope.CONSUME, Scope.READ}),
    "read_keys": frozenset({Scope.CONSUME, Scope.READ}),
    "page": frozenset({Scope.READ}),
    "events": frozenset({Scope.READ}),
    "purge": frozenset({Scope.ADMIN}),
    # These three depend on what is asked for, see below.
    "apply": EVERYONE,
    "configure": EVERYONE,
    "write_keys": EVERYONE,
}
"""One of these is needed for a verb."""

STEPS: Mapping[Act, Scope] = {
    **dict.fromkeys(FENCED, Scope.CONSUME),
    Act.CANCEL: Scope.PRODUCE,
    Act.REQUEST_CANCEL: Scope.PRODUCE,
    Act.REDRIVE: Scope.ADMIN,
    Act.EDIT: Scope.ADMIN,
    Act.MOVE: Scope.ADMIN,
}
"""What a transition needs; the acts that are not here are verbs of their own."""

STAYING = frozenset({Act.EXTEND, Act.PROGRESS, Act.REQUEST_CANCEL, Act.EDIT, Act.MOVE})
"""Acts that leave the state as it is, or to the store."""

NOTES: Mapping[str, frozenset[Scope]] = {
    "callbacks": frozenset({Scope.PRODUCE}),
    "cron": frozenset({Scope.CONSUME}),
    "recovered": frozenset({Scope.CONSUME}),
    "spark": frozenset({Scope.CONSUME}),
    "readers": frozenset({Scope.CONSUME, Scope.READ}),
    BESIDE: frozenset({Scope.CONSUME, Scope.PRODUCE}),
}
"""Who writes Ackline's own notes about a queue, by their second part; all else is for admins."""


def permit(caller: Caller, verb: str, arguments: Arguments) -> Arguments:
    """The arguments as they may be given to the store; raises if they may not."""
    _require_one_of(caller, SCOPES[verb])
    for name in ("queue", "queues", "name"):
        _require_queues(caller, arguments.get(name))
    limit = arguments.get("limit", 0)
    if not 0 <= limit <= MOST:
        raise InvalidOption(f"limit must be 0 to {MOST:,}, not {limit}")
    check = _CHECKS.get(verb)
    return {**arguments, **check(caller, arguments)} if check is not None else arguments


def _require_one_of(caller: Caller, scopes: Collection[Scope]) -> None:
    if not caller.principal.scopes & frozenset(scopes):
        words = " or ".join(sorted(scopes))
        raise Forbidden(f"this needs the scope {words}, which your token does not have")


def _require_queues(caller: Caller, said: QueueKey | str | list[QueueKey] | None) -> None:
    for one in said if isinstance(said, list) else [said] if said is not None else []:
        name = one.name if isinstance(one, QueueKey) else one
        require_name("queue", name)
        if not caller.may_see(name):
            raise Forbidden(f"your token is not for queue {name!r}")


# --- what is asked ---------------------------------------------------------------------------


def _enqueue(caller: Caller, said: Arguments) -> Arguments:
    for draft in said["drafts"]:
        _require_draft(caller, draft)
    for write in said["keys"]:
        if write.key[:3] != (OWN_KEYS, BESIDE, said["queue"].name):
            raise InvalidOption("an enqueue writes keys that stand beside its queue, no others")
        _require_write(caller, write)
    return {}


def _require_draft(caller: Caller, draft: Draft) -> None:
    require_name("id", draft.id)
    require_name("kind", draft.kind)
    caller.require_kind(draft.kind)
    require_priority(draft.priority)
    require_seconds("delay", draft.delay)
    if draft.run_at is not None and not 0 <= draft.run_at < LATEST:
        raise InvalidOption(f"run_at is in seconds since 1970, not {draft.run_at}")
    _require_size(caller, "payload", draft.payload)
    for key in draft.options.keys_if_undelivered:
        require_others_key(key)


def _claim(caller: Caller, said: Arguments) -> Arguments:
    request: ClaimRequest = said["request"]
    require_name("worker", request.worker)
    if not 0 <= request.limit <= MOST:
        raise InvalidOption(f"limit must be 0 to {MOST:,}, not {request.limit}")
    for lease in (request.lease, *request.lease_of_kind.values()):
        require_seconds("lease", lease, above_zero=True)
    kinds = caller.kinds(request.kinds)
    return {
        "request": msgspec.structs.replace(request, kinds=kinds),
        **_apply(caller, said),
    }


def _apply(caller: Caller, said: Arguments) -> Arguments:
    return {"transitions": [_permitted(caller, step) for step in said["transitions"]]}


def _permitted(caller: Caller, step: Transition) -> Transition:
    needed = STEPS.get(step.act)
    if needed is None:
        raise InvalidOption(f"{step.act} is no transition: it is a verb of its own")
    held = step.token is not None
    caller.require(Scope.CONSUME if held else needed)
    _require_possible(caller, step)
    if step.target is not None:
        _require_queues(caller, step.target)
    # Who settles what it holds is known by its lease; all else is written under its name.
    if held and not step.by:
        return step
    return msgspec.structs.replace(step, by=_signed(caller, step.by))


def _require_possible(caller: Caller, step: Transition) -> None:
    leads = step.to is None if step.act in STAYING else step.to in _ENDS[step.act]
    if not leads:
        raise InvalidOption(f"{step.act} does not lead to {step.to}")
    require_seconds("delay", step.delay)
    require_seconds("keep", step.keep)
    if step.attempts is not None and not 0 <= step.attempts <= MOST_ATTEMPTS:
        raise InvalidOption(f"attempts must be 0 to {MOST_ATTEMPTS:,}, not {step.attempts}")
    _require_size(caller, "result", step.result)
    _require_size(caller, "progress", step.progress)
    for key in step.keys:
        require_others_key(key)
    if (edit := step.edit) is not None:
        _require_size(caller, "payload", edit.payload)
        require_seconds("delay", edit.delay)
        require_seconds("keep", edit.keep)
        if edit.priority is not None:
            require_priority(edit.priority)


_ENDS: Mapping[Act, frozenset[State | None]] = {
    act: frozenset().union(*ends.values()) for act, ends in LEGAL.items()
}
"""The states that an act can lead to."""


def _heartbeat(caller: Caller, said: Arguments) -> Arguments:
    beat: WorkerBeat = said["beat"]
    require_name("worker", beat.id)
    require_seconds("ttl", beat.ttl)
    holds: list[Hold] = said["holds"]
    for hold in holds:
        require_seconds("seconds", hold.seconds)
    if not all(_seen_by_id(caller, said["queue"], [hold.id for hold in holds])):
        raise Forbidden("some of these leases are for kinds that your token is not for")
    return {}


def _leases(_caller: Caller, said: Arguments) -> Arguments:
    if said["worker"] is not None:
        require_name("worker", said["worker"])
    return {}


def _configure(caller: Caller, said: Arguments) -> Arguments:
    settings: QueueSettings = said["settings"]
    expected: QueueSettings | None = said["expected"]
    # A worker tells what its handlers were given; the rest of the settings is not its own.
    published = expected is not None and settings == msgspec.structs.replace(
        expected, kinds=settings.kinds
    )
    _require_one_of(caller, {Scope.CONSUME, Scope.ADMIN} if published else {Scope.ADMIN})
    if not published or not _changes_own_kinds(caller, settings, expected):
        caller.require_all_kinds()
    return {} if published and not said["by"] else {"by": _signed(caller, said["by"])}


def _changes_own_kinds(caller: Caller, new: QueueSettings, old: QueueSettings | None) -> bool:
    before = old.kinds if old is not None else {}
    kinds = new.kinds.keys() | before.keys()
    return all(caller.may_touch(kind) for kind in kinds if new.kinds.get(kind) != before.get(kind))


def _purge(caller: Caller, said: Arguments) -> Arguments:
    which: Filter = said["which"]
    return {
        "which": msgspec.structs.replace(which, kinds=caller.kinds(which.kinds)),
        "by": _signed(caller, said["by"]),
    }


def _listen(caller: Caller, said: Arguments) -> Arguments:
    if not 1 <= len(said["queues"]) <= MOST:
        raise InvalidOption(f"a listener hears 1 to {MOST:,} queues")
    return {"kinds": caller.kinds(said["kinds"])}


def _write_keys(caller: Caller, said: Arguments) -> Arguments:
    for write in said["writes"]:
        _require_one_of(caller, _writers(write.key))
        _require_write(caller, write)
        if write.key[:1] == (OWN_KEYS,) and len(write.key) > 2:
            _require_queues(caller, write.key[2])
        else:
            caller.require_all_queues()
    return {}


def _writers(key: tuple[str, ...]) -> frozenset[Scope]:
    others = frozenset({Scope.ADMIN})
    return others | NOTES.get(key[1], others) if key[:1] == (OWN_KEYS,) and key[1:] else others


def _require_write(caller: Caller, write: KeyWrite) -> None:
    if not 1 <= len(write.key) <= MOST_PARTS or any(
        len(part.encode()) > LONGEST_NAME for part in write.key
    ):
        raise InvalidOption(f"a key has 1 to {MOST_PARTS} parts of up to {LONGEST_NAME} bytes each")
    _require_size(caller, "value of a key", write.value)


def _require_size(caller: Caller, what: str, data: bytes | None) -> None:
    most = caller.runtime.settings.max_payload
    if data is not None and len(data) > most:
        raise PayloadTooLarge(what, len(data), most)


def _signed(caller: Caller, by: str) -> str:
    """Who did it: first who that is for sure, then who it says it is."""
    return ": ".join(name for name in (caller.by, by) if name)


_CHECKS: Mapping[str, Callable[[Caller, Arguments], Arguments]] = {
    "enqueue": _enqueue,
    "claim": _claim,
    "apply": _apply,
    "heartbeat": _heartbeat,
    "leases": _leases,
    "configure": _configure,
    "purge": _purge,
    "listen": _listen,
    "write_keys": _write_keys,
}


# --- what is answered ------------------------------------------------------------------------


def ask(caller: Caller, verb: str, arguments: Arguments) -> Any:
    """What the store answers, as far as the caller may see it; it blocks."""
    store, limits = caller.runtime.store, caller.runtime.limits
    if verb == "enqueue":
        with limits.admitting(arguments["queue"], len(arguments["drafts"])):
            return store.enqueue(**arguments)
    if verb == "events" and arguments["queue"] is None:
        return _events_of_all(caller, **arguments)
    if arguments.get("transitions") and caller.principal.kinds is not None:
        answer = _step_within_kinds(caller, verb, arguments)
    else:
        answer = getattr(store, verb)(**arguments)
    if verb in ("claim", "apply"):
        _count(caller, answer, **arguments)
    return _visible(caller, answer)


def _count(
    caller: Caller,
    answer: Claimed | list[Verdict],
    queue: QueueKey,
    transitions: list[Transition],
    **_more: Any,
) -> None:
    work = caller.runtime.metrics.work
    if isinstance(answer, Claimed):
        work.claimed(queue, answer)
        answer = answer.verdicts
    work.settled(queue, transitions, answer)


def _seen_by_id(caller: Caller, queue: QueueKey, ids: list[str]) -> list[bool]:
    """Of each job, whether the caller may touch it; one that is not there it may."""
    if caller.principal.kinds is None:
        return [True] * len(ids)
    found = caller.runtime.store.get(queue, ids)
    return [job is None or _sees(caller, job) for job in found]


def _step_within_kinds(caller: Caller, verb: str, arguments: Arguments) -> Any:
    """Jobs of other kinds are not there for the caller: their steps are answered like that."""
    steps: list[Transition] = arguments["transitions"]
    seen = _seen_by_id(caller, arguments["queue"], [step.id for step in steps])
    mine = [step for step, sees in zip(steps, seen, strict=True) if sees]
    answer = getattr(caller.runtime.store, verb)(**{**arguments, "transitions": mine})
    given = iter(answer.verdicts if isinstance(answer, Claimed) else answer)
    verdicts = [next(given) if sees else Verdict(False, None) for sees in seen]
    if isinstance(answer, Claimed):
        return msgspec.structs.replace(answer, verdicts=verdicts)
    return verdicts


def _events_of_all(caller: Caller, queue: None, after: str | None, limit: int) -> list[Event]:
    """The next events of the tenant; those of others are passed over, page by page."""
    while page := caller.runtime.store.events(queue, after, limit):
        if found := _seen(caller, page):
            return found
        after = page[-1].cursor
    return []


def _visible(caller: Caller, answer: Any) -> Any:
    match answer:
        case StoreInfo():
            return _seen_info(caller, answer)
        case Page() if caller.principal.kinds is not None:
            return msgspec.structs.replace(answer, jobs=_seen(caller, answer.jobs))
        case Claimed() if caller.principal.kinds is not None:
            return msgspec.structs.replace(answer, lapsed=_seen(caller, answer.lapsed))
        case [Record() | None, *_] if caller.principal.kinds is not None:
            return [job if job and _sees(caller, job) else None for job in answer]
        case [Event() | QueueInfo() | Key(), *_]:
            return _seen(caller, answer)
        case _:
            return answer


def _seen(caller: Caller, found: Iterable[Any]) -> list[Any]:
    return [one for one in found if _sees(caller, one)]


def _sees(caller: Caller, one: Record | Event | QueueInfo | Key) -> bool:
    kinds = caller.principal.kinds
    match one:
        case Record():
            return kinds is None or one.kind in kinds
        case Event():
            theirs = kinds is None or not one.id or one.kind in kinds
            return one.queue.tenant == caller.tenant and caller.may_see(one.queue.name) and theirs
        case QueueInfo():
            return caller.may_see(one.key.name)
        case Key():
            if one.key[:1] == (OWN_KEYS,):
                return all(map(caller.may_see, one.key[2:3]))
            return caller.principal.queues is None and kinds is None


def _seen_info(caller: Caller, info: StoreInfo) -> StoreInfo:
    """What a store is, without where it is: that is the service's own."""
    admin = Scope.ADMIN in caller.principal.scopes
    return msgspec.structs.replace(
        info, location="", details={}, troubles=info.troubles if admin else ()
    )
