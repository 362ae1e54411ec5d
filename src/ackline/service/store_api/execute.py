"""Executes store methods within the rate limit, and hides what the caller may not see."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from ackline.core.events import Event, Events, make_cursor
from ackline.core.job import QueueKey, Record
from ackline.core.lifecycle import Transition, Verdict
from ackline.service.auth.caller import Caller
from ackline.service.auth.permissions import Permission, is_settling
from ackline.service.delivery.heartbeats import heartbeat
from ackline.service.store_api.arguments import Arguments
from ackline.stores.contract import (
    ClaimResult,
    KeyValue,
    QueueInfo,
    Receipt,
    StoreInfo,
    read_each_key,
)
from ackline.stores.shared.byte_limit import ByteLimit

READ_ALL_KEYS = (Permission.READ_KEYS, Permission.READ_JOBS)
"""Callers with both may read all keys."""

SKIP_PAGE = 5000
"""Events to read at a time, to skip those that the caller may not see."""

SKIP_TIME_LIMIT = 0.5
"""Seconds that one request may spend on skipping events."""


class ContinueAt(msgspec.Struct, frozen=True):
    """Nothing was found in time; the next request continues at this cursor."""

    cursor: str


def execute(caller: Caller, verb: str, arguments: Arguments) -> Any:
    """The store's answer, as far as the caller can see it. Blocks."""
    store, limits = caller.runtime.store, caller.runtime.limits
    if verb == "enqueue":
        ids = [draft.id for draft in arguments["drafts"]]
        with limits.admitting(arguments["queue"], len(ids), ids):
            return _without_foreign_results(caller, arguments["queue"], store.enqueue(**arguments))
    if verb == "heartbeat":
        return heartbeat(caller, **arguments)
    if verb == "events" and (arguments["queue"] is None or caller.principal.kinds is not None):
        return _visible_events(caller, **arguments)
    if verb == "read_keys" and not all(map(caller.principal.may, READ_ALL_KEYS)):
        return _visible_keys(caller, **arguments)
    if transitions := arguments.get("transitions"):
        limits.require_capacity(arguments["queue"], transitions)
    if transitions and caller.principal.kinds is not None:
        answer = _apply_to_own_kinds(caller, verb, arguments)
    else:
        answer = getattr(store, verb)(**arguments)
    if verb in ("claim", "apply"):
        _count(caller, answer, **arguments)
    if verb == "leases":
        answer = _only_visible(caller, answer)
    return _redact(caller, answer)


def _count(
    caller: Caller,
    answer: ClaimResult | list[Verdict],
    queue: QueueKey,
    transitions: list[Transition],
    **_more: Any,
) -> None:
    job_timings = caller.runtime.metrics.job_timings
    if isinstance(answer, ClaimResult):
        job_timings.claimed(queue, answer)
        answer = answer.verdicts
    job_timings.settled(queue, transitions, answer)


def _apply_to_own_kinds(caller: Caller, verb: str, arguments: Arguments) -> Any:
    """Apply transitions to jobs of the caller's kinds; others do not exist for it."""
    transitions: list[Transition] = arguments["transitions"]
    visible = caller.can_see_each(arguments["queue"], [transition.id for transition in transitions])
    own = [
        transition
        for transition, is_visible in zip(transitions, visible, strict=True)
        if is_visible
    ]
    answer = getattr(caller.runtime.store, verb)(**{**arguments, "transitions": own})
    applied = iter(answer.verdicts if isinstance(answer, ClaimResult) else answer)
    verdicts = [next(applied) if is_visible else Verdict(False, None) for is_visible in visible]
    if isinstance(answer, ClaimResult):
        return msgspec.structs.replace(answer, verdicts=verdicts)
    return verdicts


def _visible_events(
    caller: Caller, queue: QueueKey | None, after: str | None, limit: int, tenant: str
) -> list[Event] | ContinueAt:
    """The next events that the caller can see; others are skipped, as long as there is time."""
    until = time.monotonic() + SKIP_TIME_LIMIT
    page_size, store = max(limit, SKIP_PAGE), caller.runtime.store
    while limit and (
        page := Events.from_sequence(store.events(queue, after, page_size, tenant=tenant))
    ):
        if found := _only_visible(caller, page)[:limit]:
            return found
        after = make_cursor(*page.batches[-1].end)
        if time.monotonic() > until:
            return ContinueAt(after)
    return []


def _visible_keys(
    caller: Caller,
    tenant: str,
    prefix: tuple[str, ...],
    limit: int,
    after: tuple[str, ...] | None,
    max_bytes: int,
) -> list[KeyValue]:
    """The next keys that the caller can see; others count neither for the limit nor the bytes."""
    every = read_each_key(caller.runtime.store, tenant, prefix, sys.maxsize, after)
    own = itertools.islice((key for key in every if caller.principal.can_see(key)), limit)
    return list(ByteLimit(max_bytes).limit(own, lambda key: len(key.value)))


def _redact(caller: Caller, answer: Any) -> Any:
    principal = caller.principal
    match answer:
        case StoreInfo():
            return principal.redact_store(answer)
        case ClaimResult() if principal.kinds is not None:
            return msgspec.structs.replace(answer, lapsed=_only_visible(caller, answer.lapsed))
        case [Record() | None, *_]:
            return [
                principal.redact_job(job) if job and principal.can_see(job) else None
                for job in answer
            ]
        case [QueueInfo(), *_]:
            return [principal.redact_queue(info) for info in _only_visible(caller, answer)]
        case Events() | [Event(), *_]:
            return _only_visible(caller, answer)
        case _:
            return answer


def _only_visible(caller: Caller, found: Iterable[Any]) -> list[Any]:
    return list(filter(caller.principal.can_see, found))


def _without_foreign_results(
    caller: Caller, queue: QueueKey, receipts: list[Receipt]
) -> list[Receipt]:
    """Receipts, without the results of existing jobs of other kinds."""
    ids = [receipt.id for receipt in receipts if receipt.result is not None]
    hidden = {
        id
        for id, is_visible in zip(ids, caller.can_see_each(queue, ids), strict=True)
        if not is_visible
    }
    if not hidden:
        return receipts
    return [
        msgspec.structs.replace(receipt, result=None) if receipt.id in hidden else receipt
        for receipt in receipts
    ]


RATE_DEPENDS_ON_BODY = frozenset({"claim", "apply", "heartbeat"})
"""Methods that may settle jobs; others are refused by rate before the body is read."""


def execute_within_rate(caller: Caller, verb: str, arguments: Arguments) -> Any:
    """The store's answer, within the rate; settling and heartbeats are never refused. Blocks."""
    limits, transitions = caller.runtime.limits, arguments.get("transitions", ())
    if verb in RATE_DEPENDS_ON_BODY and (verb == "heartbeat" or _settles(transitions)):
        wait = limits.count_request(caller.tenant)
        if wait and verb == "claim":
            return _settle_without_claim(caller, arguments, wait)
    elif verb in RATE_DEPENDS_ON_BODY:
        limits.admit_request(caller.tenant)
    return execute(caller, verb, arguments)


def _settles(transitions: Sequence[Transition]) -> bool:
    """Whether there are transitions, all of them by holders of leases."""
    return bool(transitions) and all(map(is_settling, transitions))


def _settle_without_claim(caller: Caller, arguments: Arguments, wait: float) -> ClaimResult:
    """Settle what a claim settles, but claim nothing: `next_at` is when it is admitted again."""
    transitions = {"queue": arguments["queue"], "transitions": arguments["transitions"]}
    verdicts = execute(caller, "apply", transitions)
    now = caller.runtime.store.now()
    return ClaimResult(jobs=[], verdicts=verdicts, next_at=now + wait, now=now)
