"""Jobs in, out and through."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import msgspec

from ackline.job import Draft, QueueKey, Record, State
from ackline.lifecycle import REPEATABLE, Transition, Verdict, repeats
from ackline.stores.base import BeatReply, Claimed, ClaimRequest, Hold, Receipt, WorkerBeat
from ackline.stores.redis.packing import (
    ASKED,
    STATES,
    BodyReader,
    draft_runs,
    seen_jobs,
)
from ackline.stores.redis.queue_script import QueueScripts
from ackline.stores.redis.steps import Steps

LEAP = 1 << 20
"""A token is up to this much above the last one, when the clock has not passed that yet."""

_ACCEPTED = {"q": State.QUEUED, "s": State.SCHEDULED}
_GONE = Verdict(False, None)
_REFUSED = 10
_VERDICTS = {
    -1: _GONE,
    **{code: Verdict(True, state) for code, state in enumerate(STATES)},
    **{code + _REFUSED: Verdict(False, state) for code, state in enumerate(STATES)},
}

_encode = msgspec.msgpack.Encoder().encode


def enqueue(scripts: QueueScripts, queue: QueueKey, drafts: Sequence[Draft]) -> list[Receipt]:
    """Insert what is not there yet."""
    if not drafts:
        scripts.make(queue)
        return []
    letters, *results = scripts.change("enqueue", queue, [*draft_runs(drafts)])
    waiting = iter(results)
    receipts = []
    for draft, letter in zip(drafts, letters.decode(), strict=True):
        state = _ACCEPTED.get(letter)
        if state is not None:
            receipts.append(Receipt(draft.id, True, state))
            continue
        there = STATES[int(letter)]
        result = next(waiting) if there is State.COMPLETED else None
        receipts.append(Receipt(draft.id, False, there, result))
    return receipts


def claim(
    scripts: QueueScripts,
    queue: QueueKey,
    request: ClaimRequest,
    transitions: Sequence[Transition],
) -> Claimed:
    """Apply, promote what is due, lease the next in line, tell what has lapsed."""
    arguments = [_pack_request(request), *Steps(scripts.names, queue).pack(transitions)]
    run = scripts.change if transitions else scripts.run
    answer = run("claim", queue, arguments)
    time, token, next_at, verdicts, jobs, lapsed = answer
    now = float(time)
    return Claimed(
        jobs=_leased(jobs, request, int(token), now) if jobs else [],
        verdicts=_verdicts(scripts, queue, transitions, verdicts),
        lapsed=[seen.record for seen in seen_jobs(lapsed)],
        next_at=float(next_at) if next_at else None,
        now=now,
    )


def _pack_request(request: ClaimRequest) -> bytes:
    packed: dict[str, Any] = {
        "worker": request.worker,
        "limit": max(0, request.limit),
        "lease": request.lease,
        "leap": random.randint(1, LEAP),
        "leases": dict(request.lease_of_kind),
    }
    if request.kinds is not None:
        packed["kinds"] = sorted(request.kinds)
    return _encode(packed)


def _leased(flat: Sequence[Any], request: ClaimRequest, token: int, now: float) -> list[Record]:
    read, processing = BodyReader().read, State.PROCESSING
    worker, leases = request.worker, request.lease_of_kind
    records = []
    for index in range(0, len(flat), 4):
        id, packed, attempts, flags = flat[index : index + 4]
        body = read(packed)
        lease = body.options.lease or leases.get(body.kind, request.lease)
        records.append(
            Record(
                id.decode(),
                body.kind,
                processing,
                body.payload,
                body.priority,
                body.options,
                attempts,
                body.created_at,
                token,
                worker,
                now,
                now + lease,
                None,
                None,
                None,
                bool(flags & ASKED),
            )
        )
    return records


def apply(
    scripts: QueueScripts, queue: QueueKey, transitions: Sequence[Transition]
) -> list[Verdict]:
    """Apply each transition whose guard holds."""
    if not transitions:
        return []
    codes = scripts.change("apply", queue, Steps(scripts.names, queue).pack(transitions))
    return _verdicts(scripts, queue, transitions, codes)


def _verdicts(
    scripts: QueueScripts,
    queue: QueueKey,
    transitions: Sequence[Transition],
    codes: Sequence[int],
) -> list[Verdict]:
    if not codes:
        return [_GONE] * len(transitions)
    verdicts = [_VERDICTS[code] for code in codes]
    for index, code in enumerate(codes):
        transition = transitions[index]
        if code >= _REFUSED and transition.token is not None and transition.act in REPEATABLE:
            # A history only grows, so it can be read afterwards.
            again = _repeats(scripts, queue, transition)
            verdicts[index] = Verdict(again, verdicts[index].state)
    return verdicts


def _repeats(scripts: QueueScripts, queue: QueueKey, transition: Transition) -> bool:
    _, flat = scripts.run("get", queue, [transition.id])
    return any(
        repeats(transition, seen.act, seen.record.token, seen.record.result, seen.record.history)
        for seen in seen_jobs(flat)
    )


def heartbeat(
    scripts: QueueScripts, queue: QueueKey, beat: WorkerBeat, holds: Sequence[Hold]
) -> BeatReply:
    """Note a sign of life and extend leases."""
    sign = _encode(beat) if beat.ttl > 0 else b""
    arguments: list[Any] = [beat.id, sign, repr(beat.ttl)]
    for hold in holds:
        arguments += (hold.id, hold.token, repr(hold.seconds))
    lost, cancelled = scripts.make_and_run("heartbeat", queue, arguments)
    return BeatReply(lost, cancelled)
