"""Jobs in, out and through."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from ackline.job import Draft, QueueKey, Record, State
from ackline.lifecycle import Transition, Verdict, repeats
from ackline.stores.base import (
    BeatReply,
    Claimed,
    ClaimRequest,
    Hold,
    KeyWrite,
    Receipt,
    WaitingClaim,
    WorkerBeat,
)
from ackline.stores.redis.crossing import apply_in_cluster
from ackline.stores.redis.inbox import Inbox
from ackline.stores.redis.packing import GONE, REFUSED, Body, ended_leases, leased
from ackline.stores.redis.script_calls import Applied, ScriptCalls
from ackline.stores.shared.records import STATES

LEAP_BITS = 20
"""While the clock is behind, a token is above the last one by a random number of this many bits."""

_leaps = random.Random()
# Not `secrets`: asking the kernel releases the GIL, and a busy worker gets it back late.
os.register_at_fork(after_in_child=_leaps.seed)

_ACCEPTED = {"q": State.QUEUED, "s": State.SCHEDULED}
_GONE = Verdict(False, None)
_VERDICTS = {
    GONE: _GONE,
    **{code: Verdict(True, state) for code, state in enumerate(STATES)},
    **{code + REFUSED: Verdict(False, state) for code, state in enumerate(STATES)},
}

_encode = msgspec.msgpack.Encoder().encode


def enqueue(
    scripts: ScriptCalls, queue: QueueKey, drafts: Sequence[Draft], keys: Sequence[KeyWrite] = ()
) -> list[Receipt]:
    """Insert the jobs that are not there yet, and write the keys that came with them."""
    if not drafts and not keys:
        scripts.make(queue)
        return []
    letters, results = scripts.enqueue(queue, drafts, keys, _leap())
    waiting = iter(results)
    receipts = []
    for draft, letter in zip(drafts, letters, strict=True):
        state = _ACCEPTED.get(letter)
        if state is not None:
            receipts.append(Receipt(draft.id, True, state))
            continue
        there = STATES[int(letter)]
        result = next(waiting) if there is State.COMPLETED else None
        receipts.append(Receipt(draft.id, False, there, result))
    return receipts


def claim(
    scripts: ScriptCalls,
    queue: QueueKey,
    request: ClaimRequest,
    transitions: Sequence[Transition],
    inbox: Inbox | None = None,
) -> Claimed:
    """Apply the transitions, promote due jobs, lease the next in line, report lapsed ones.

    Jobs that were handed over come first; if there is nothing to apply, the server is not asked.
    """
    if inbox is None:
        return _claim_from_server(scripts, queue, request, transitions)
    handed = inbox.take(request.worker)
    if handed and request.limit > 0 and not transitions:
        return inbox.claimed(handed)
    try:
        return _claim_from_server(scripts, queue, request, transitions, inbox, handed)
    except BaseException:
        inbox.put_back(handed)
        raise


def _claim_from_server(
    scripts: ScriptCalls,
    queue: QueueKey,
    request: ClaimRequest,
    transitions: Sequence[Transition],
    inbox: Inbox | None = None,
    handed: Sequence[Record] = (),
) -> Claimed:
    asked_at = time.monotonic()
    settled: list[Verdict] | None = None
    if inbox is not None and not handed and _may_wait_on(scripts, request, transitions):
        settled, waits = settle(scripts, queue, transitions, inbox)
        if waits:
            return Claimed(jobs=[], verdicts=settled, now=0.0, as_before=True)
        transitions = ()
    elif transitions and _settle_first(scripts, transitions):
        settled, transitions = apply(scripts, queue, transitions), ()
    taken = scripts.claim(queue, _pack_request(request, len(handed), inbox), transitions)
    now, jobs = taken.now, taken.jobs
    claimed = _leased(jobs, taken.again, request, taken.token, now) if jobs else []
    if inbox is not None:
        inbox.waits(asked_at, now)
        handed = [*handed, *inbox.accept(taken.late, request.worker)]
    return Claimed(
        jobs=[*handed, *claimed] if handed else claimed,
        verdicts=settled or _verdicts(transitions, taken.applied),
        lapsed=[seen.record for seen in taken.lapsed],
        next_at=taken.next_at,
        now=now,
        since=inbox.since(handed, asked_at) if inbox and handed else None,
        more=request.max_bytes is not None and sum(map(len, jobs[1::2])) >= request.max_bytes,
    )


def _settle_first(scripts: ScriptCalls, transitions: Sequence[Transition]) -> bool:
    """Whether to settle in a call of its own, before the claim.

    So if the store waits for replicas or a sync: if that wait failed after a joint call, jobs
    would stay leased that the worker never got.
    """
    if scripts.connection.waits:
        return True
    return _cross(scripts, transitions)


def _may_wait_on(
    scripts: ScriptCalls, request: ClaimRequest, transitions: Sequence[Transition]
) -> bool:
    """Whether it may be enough to settle, and to keep waiting for jobs to be handed over."""
    if not transitions or not isinstance(request, WaitingClaim) or not request.quiet:
        return False
    return not _cross(scripts, transitions)


def _leap() -> int:
    return _leaps.getrandbits(LEAP_BITS) + 1


def _pack_request(request: ClaimRequest, handed: int, inbox: Inbox | None) -> bytes:
    packed: dict[str, Any] = {
        "worker": request.worker,
        "limit": max(0, request.limit - handed),
        "lease": request.lease,
        "leap": _leap(),
        "leases": dict(request.lease_of_kind),
    }
    if isinstance(request, WaitingClaim) and inbox is not None:
        places = min(request.limit, request.places) - handed
        packed |= {"inbox": inbox.name, "received": inbox.received, "places": places}
    if request.kinds is not None:
        packed["kinds"] = sorted(request.kinds)
    if request.ignore_group_limit:
        packed["ignores_groups"] = True
    if request.max_bytes is not None:
        packed["bytes"] = request.max_bytes
    return _encode(packed)


def _leased(
    flat: Sequence[Any], again: Sequence[int], request: ClaimRequest, token: int, now: float
) -> list[Record]:
    body, worker = Body(), request.worker
    had = {index: (attempts, flags) for index, attempts, flags in _in_threes(again)}
    records = []
    for index in range(len(flat) // 2):
        body.read(flat[2 * index + 1])
        attempts, flags = had.get(index, _FIRST)
        until = now + request.lease_of(body.kind, body.options)
        records.append(leased(flat[2 * index], body, attempts, flags, token, worker, now, until))
    return records


_FIRST = (1, 0)
"""Attempts and flags of a job that no worker has had before."""


def _in_threes(flat: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    return zip(flat[::3], flat[1::3], flat[2::3], strict=True)


def apply(
    scripts: ScriptCalls, queue: QueueKey, transitions: Sequence[Transition]
) -> list[Verdict]:
    """Apply each transition whose guard holds."""
    if not transitions:
        return []
    if _cross(scripts, transitions):
        return _verdicts(transitions, apply_in_cluster(scripts, queue, transitions))
    return _verdicts(transitions, scripts.apply(queue, transitions))


def settle(
    scripts: ScriptCalls, queue: QueueKey, transitions: Sequence[Transition], inbox: Inbox
) -> tuple[list[Verdict], bool]:
    """Apply each transition whose guard holds; also whether the inbox still waits for jobs."""
    applied, waits = scripts.settle(queue, transitions, inbox.name, inbox.received)
    return _verdicts(transitions, applied), waits


def _cross(scripts: ScriptCalls, transitions: Sequence[Transition]) -> bool:
    """Whether any step reaches beyond its queue, which a script in a cluster cannot."""
    return scripts.names.clustered and any(
        transition.target is not None or transition.keys for transition in transitions
    )


def _verdicts(transitions: Sequence[Transition], applied: Applied) -> list[Verdict]:
    """The verdicts on transitions; a refused one may have been applied by an earlier call."""
    codes, ends = applied
    if not codes:
        return [_GONE] * len(transitions)
    verdicts = [_VERDICTS[code] for code in codes]
    if ends:
        ended = ended_leases(ends)
        for index, transition in enumerate(transitions):
            last = ended.get(transition.id)
            if last is None or codes[index] < REFUSED:
                continue
            if repeats(transition, last.act, last.token, last.result, last.history):
                verdicts[index] = Verdict(True, verdicts[index].state)
    return verdicts


def heartbeat(
    scripts: ScriptCalls, queue: QueueKey, beat: WorkerBeat, holds: Sequence[Hold]
) -> BeatReply:
    """Note that a worker is alive, and extend its leases."""
    packed = _encode(beat) if beat.ttl > 0 else b""
    return BeatReply(*scripts.heartbeat(queue, beat.id, packed, beat.ttl, holds))
