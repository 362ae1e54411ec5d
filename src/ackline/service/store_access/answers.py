"""What the store answers, as far as a caller may see it."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Iterable
from typing import Any

import msgspec

from ackline.events import Event, Events, make_cursor
from ackline.job import QueueKey, Record
from ackline.lifecycle import Transition, Verdict
from ackline.service.auth.authorization import Access
from ackline.service.auth.caller import Caller
from ackline.service.heartbeats import heartbeat
from ackline.service.store_access.arguments import Arguments
from ackline.stores.base import (
    Claimed,
    Key,
    QueueInfo,
    Receipt,
    StoreInfo,
    each_key,
)
from ackline.stores.budget import Budget

EVERY_KEY = (Access.READ_KEYS, Access.READ_JOBS)
"""Who may do both may read all keys."""

PASSED_AT_ONCE = 5000
"""Events that are read at once, to skip those that are not the caller's."""

PATIENCE = 0.5
"""Seconds that one request may spend on skipping events."""


class ReadOn(msgspec.Struct, frozen=True):
    """Nothing was found in time; the next request goes on at this cursor."""

    cursor: str


def ask(caller: Caller, verb: str, arguments: Arguments) -> Any:
    """What the store answers, as far as the caller may see it; it blocks."""
    store, limits = caller.runtime.store, caller.runtime.limits
    if verb == "enqueue":
        ids = [draft.id for draft in arguments["drafts"]]
        with limits.admitting(arguments["queue"], len(ids), ids):
            return _with_own_results(caller, arguments["queue"], store.enqueue(**arguments))
    if verb == "heartbeat":
        return heartbeat(caller, **arguments)
    if verb == "events" and (arguments["queue"] is None or caller.principal.kinds is not None):
        return _events_seen(caller, **arguments)
    if verb == "read_keys" and not all(map(caller.principal.may, EVERY_KEY)):
        return _keys_seen(caller, **arguments)
    if steps := arguments.get("transitions"):
        limits.require_room(arguments["queue"], steps)
    if steps and caller.principal.kinds is not None:
        answer = _step_within_kinds(caller, verb, arguments)
    else:
        answer = getattr(store, verb)(**arguments)
    if verb in ("claim", "apply"):
        _count(caller, answer, **arguments)
    if verb == "leases":
        answer = _seen(caller, answer)
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


def _step_within_kinds(caller: Caller, verb: str, arguments: Arguments) -> Any:
    """Take steps on jobs of the caller's kinds; others do not exist for it, and are answered so."""
    steps: list[Transition] = arguments["transitions"]
    seen = caller.sees(arguments["queue"], [step.id for step in steps])
    mine = [step for step, sees in zip(steps, seen, strict=True) if sees]
    answer = getattr(caller.runtime.store, verb)(**{**arguments, "transitions": mine})
    applied = iter(answer.verdicts if isinstance(answer, Claimed) else answer)
    verdicts = [next(applied) if sees else Verdict(False, None) for sees in seen]
    if isinstance(answer, Claimed):
        return msgspec.structs.replace(answer, verdicts=verdicts)
    return verdicts


def _events_seen(
    caller: Caller, queue: QueueKey | None, after: str | None, limit: int, tenant: str
) -> list[Event] | ReadOn:
    """The next events that are the caller's; others are skipped, as long as there is time."""
    until = time.monotonic() + PATIENCE
    at_once, store = max(limit, PASSED_AT_ONCE), caller.runtime.store
    while limit and (page := Events.of(store.events(queue, after, at_once, tenant=tenant))):
        if found := _seen(caller, page)[:limit]:
            return found
        after = make_cursor(*page.batches[-1].end)
        if time.monotonic() > until:
            return ReadOn(after)
    return []


def _keys_seen(
    caller: Caller,
    tenant: str,
    prefix: tuple[str, ...],
    limit: int,
    after: tuple[str, ...] | None,
    max_bytes: int,
) -> list[Key]:
    """The next keys that are the caller's: others count neither for the limit nor the bytes."""
    every = each_key(caller.runtime.store, tenant, prefix, sys.maxsize, after)
    own = itertools.islice((key for key in every if caller.principal.sees(key)), limit)
    return list(Budget(max_bytes).within(own, lambda key: len(key.value)))


def _visible(caller: Caller, answer: Any) -> Any:
    principal = caller.principal
    match answer:
        case StoreInfo():
            return principal.store(answer)
        case Claimed() if principal.kinds is not None:
            return msgspec.structs.replace(answer, lapsed=_seen(caller, answer.lapsed))
        case [Record() | None, *_]:
            return [principal.job(job) if job and principal.sees(job) else None for job in answer]
        case [QueueInfo(), *_]:
            return [principal.queue(info) for info in _seen(caller, answer)]
        case Events() | [Event(), *_]:
            return _seen(caller, answer)
        case _:
            return answer


def _seen(caller: Caller, found: Iterable[Any]) -> list[Any]:
    return list(filter(caller.principal.sees, found))


def _with_own_results(caller: Caller, queue: QueueKey, receipts: list[Receipt]) -> list[Receipt]:
    """Receipts, without results of jobs of other kinds that had their ids before."""
    ids = [receipt.id for receipt in receipts if receipt.result is not None]
    hidden = {id for id, sees in zip(ids, caller.sees(queue, ids), strict=True) if not sees}
    if not hidden:
        return receipts
    return [
        msgspec.structs.replace(receipt, result=None) if receipt.id in hidden else receipt
        for receipt in receipts
    ]
