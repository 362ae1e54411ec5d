"""Enqueue, claim, apply transitions, heartbeat."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from ackline.core.job import Draft, QueueKey, Record, State
from ackline.core.lifecycle import Transition, Verdict, was_applied
from ackline.stores.contract import (
    ClaimRequest,
    ClaimResult,
    Heartbeat,
    HeartbeatReply,
    KeyWrite,
    LeaseExtension,
    Receipt,
)
from ackline.stores.redis.cluster_moves import apply_in_cluster
from ackline.stores.redis.direct_delivery import Inbox
from ackline.stores.redis.encode_jobs import (
    NO_JOB,
    REFUSED,
    BodyDecoder,
    decode_last_leases,
    leased_record,
)
from ackline.stores.redis.scripts import ApplyAnswer, Scripts
from ackline.stores.shared.record_encoding import STATES_BY_CODE

TOKEN_JUMP_BITS = 20
"""Bits of the random number by which a token exceeds the last one while the clock is behind."""

_token_jumps = random.Random()
# Not `secrets`: a system call releases the GIL, and a busy worker gets it back late.
os.register_at_fork(after_in_child=_token_jumps.seed)

_ACCEPTED = {"q": State.QUEUED, "s": State.SCHEDULED}
_NO_JOB = Verdict(False, None)
_VERDICTS = {
    NO_JOB: _NO_JOB,
    **{code: Verdict(True, state) for code, state in enumerate(STATES_BY_CODE)},
    **{code + REFUSED: Verdict(False, state) for code, state in enumerate(STATES_BY_CODE)},
}

_encode = msgspec.msgpack.Encoder().encode


def enqueue(
    scripts: Scripts, queue: QueueKey, drafts: Sequence[Draft], keys: Sequence[KeyWrite] = ()
) -> list[Receipt]:
    """Insert the jobs that do not exist yet, and write the keys that came with them."""
    if not drafts and not keys:
        scripts.create_queue(queue)
        return []
    codes, results = scripts.enqueue(queue, drafts, keys, _token_jump())
    next_result = iter(results)
    receipts = []
    for draft, code in zip(drafts, codes, strict=True):
        state = _ACCEPTED.get(code)
        if state is not None:
            receipts.append(Receipt(draft.id, True, state))
            continue
        existing = STATES_BY_CODE[int(code)]
        result = next(next_result) if existing is State.COMPLETED else None
        receipts.append(Receipt(draft.id, False, existing, result))
    return receipts


def claim(
    scripts: Scripts,
    queue: QueueKey,
    request: ClaimRequest,
    transitions: Sequence[Transition],
    inbox: Inbox | None = None,
    free_capacity: int = 0,
) -> ClaimResult:
    """Apply the transitions, promote due jobs, lease the next queued jobs, report lapsed ones.

    With an inbox, a job may be delivered there afterwards if this returns fewer than
    `free_capacity` jobs.
    """
    settled: list[Verdict] | None = None
    if transitions and _settle_first(scripts, transitions):
        settled, transitions = apply(scripts, queue, transitions), ()
    sent_at = time.monotonic()
    answer = scripts.claim(queue, _pack_request(request, inbox, free_capacity), transitions)
    now, jobs = answer.now, answer.jobs
    if inbox is not None:
        inbox.set_clock_reference(sent_at, now)
        if answer.lost_delivery:
            inbox.add_message(answer.lost_delivery)
    max_bytes = request.max_bytes
    return ClaimResult(
        jobs=_leased_records(jobs, answer.redelivered, request, answer.token, now) if jobs else [],
        verdicts=settled or _verdicts(transitions, answer.applied),
        lapsed=[found.record for found in answer.lapsed],
        next_at=answer.next_at,
        now=now,
        # A job that was being delivered took the capacity of a queued one.
        may_have_more=bool(answer.lost_delivery)
        or (max_bytes is not None and sum(map(len, jobs[1::2])) >= max_bytes),
    )


def _settle_first(scripts: Scripts, transitions: Sequence[Transition]) -> bool:
    """Whether to settle in a separate call before the claim.

    If the store waits for replicas or a sync and that fails after a combined call, the worker
    would never get the jobs that the call has leased.
    """
    if scripts.connection.waits_for_durability:
        return True
    return _cross_slots(scripts, transitions)


def _token_jump() -> int:
    return _token_jumps.getrandbits(TOKEN_JUMP_BITS) + 1


def _pack_request(request: ClaimRequest, inbox: Inbox | None, free_capacity: int) -> bytes:
    packed: dict[str, Any] = {
        "worker": request.worker,
        "limit": request.limit,
        "lease": request.lease,
        "token_jump": _token_jump(),
        "lease_of_kind": dict(request.lease_of_kind),
    }
    if inbox is not None:
        packed |= {
            "inbox": inbox.name,
            "received_token": inbox.received_token,
            "free_capacity": min(request.limit, free_capacity),
        }
    if request.kinds is not None:
        packed["kinds"] = sorted(request.kinds)
    if request.ignore_group_limit:
        packed["ignore_group_limit"] = True
    if request.max_bytes is not None:
        packed["max_bytes"] = request.max_bytes
    return _encode(packed)


def _leased_records(
    flat: Sequence[Any], redelivered: Sequence[int], request: ClaimRequest, token: int, now: float
) -> list[Record]:
    body, worker = BodyDecoder(), request.worker
    leased_before = {index: (attempts, flags) for index, attempts, flags in _triples(redelivered)}
    records = []
    for index in range(len(flat) // 2):
        body.read(flat[2 * index + 1])
        attempts, flags = leased_before.get(index, _FIRST_DELIVERY)
        deadline = now + request.lease_of(body.kind, body.options)
        records.append(
            leased_record(flat[2 * index], body, attempts, flags, token, worker, now, deadline)
        )
    return records


_FIRST_DELIVERY = (1, 0)
"""Attempts and flags of a job that was never leased before."""


def _triples(flat: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    return zip(flat[::3], flat[1::3], flat[2::3], strict=True)


def apply(scripts: Scripts, queue: QueueKey, transitions: Sequence[Transition]) -> list[Verdict]:
    """Apply each transition if its guards hold."""
    if not transitions:
        return []
    if _cross_slots(scripts, transitions):
        return _verdicts(transitions, apply_in_cluster(scripts, queue, transitions))
    return _verdicts(transitions, scripts.apply(queue, transitions))


def _cross_slots(scripts: Scripts, transitions: Sequence[Transition]) -> bool:
    """Whether any transition reaches beyond its queue, which a script in a cluster cannot."""
    return scripts.names.clustered and any(
        transition.target is not None or transition.undelivered_keys for transition in transitions
    )


def _verdicts(transitions: Sequence[Transition], applied: ApplyAnswer) -> list[Verdict]:
    """The verdicts on transitions; a refused one may have been applied by an earlier call."""
    codes, packed_leases = applied
    if not codes:
        return [_NO_JOB] * len(transitions)
    verdicts = [_VERDICTS[code] for code in codes]
    if packed_leases:
        last_leases = decode_last_leases(packed_leases)
        for index, transition in enumerate(transitions):
            lease = last_leases.get(transition.id)
            if lease is None or codes[index] < REFUSED:
                continue
            if was_applied(transition, lease.act, lease.token, lease.result, lease.history):
                verdicts[index] = Verdict(True, verdicts[index].state)
    return verdicts


def heartbeat(
    scripts: Scripts,
    queue: QueueKey,
    heartbeat: Heartbeat | None,
    extensions: Sequence[LeaseExtension],
) -> HeartbeatReply:
    """Record that a worker is alive, and extend leases."""
    worker, ttl, packed = "", 0.0, b""
    if heartbeat is not None:
        worker, ttl = heartbeat.id, heartbeat.ttl
        packed = _encode(heartbeat) if ttl > 0 else b""
    lost, cancelled = scripts.heartbeat(queue, worker, packed, ttl, extensions)
    return HeartbeatReply(lost, cancelled)
