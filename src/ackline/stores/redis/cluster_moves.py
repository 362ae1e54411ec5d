"""Changes of several slots of a cluster, in steps that can be repeated after any crash.

A script can reach only one slot. So a job that moves is first kept in a hash of its queue
(`:moving`), then inserted into the other queue, and only then deleted from the hash. Keys of
undelivered jobs are first written next to their queue, then to the tenant's key-value store. If a
crash interrupts this, the next pruning completes it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import msgspec

from ackline.core.job import QueueKey, State
from ackline.core.lifecycle import Transition
from ackline.stores.contract import KeyWrite
from ackline.stores.redis.encode_jobs import NO_JOB, REFUSED
from ackline.stores.redis.scripts import ApplyAnswer, Scripts

logger = logging.getLogger("ackline")

KEYS_PAGE_SIZE = 1000

VerdictCode = int
"""A verdict as a script returns it."""

_decode = msgspec.msgpack.Decoder(dict[str, msgspec.Raw]).decode
_decode_text = msgspec.msgpack.Decoder(str).decode


def apply_in_cluster(
    scripts: Scripts, queue: QueueKey, transitions: Sequence[Transition]
) -> ApplyAnswer:
    """Apply in order: moves one by one, the transitions between two moves together."""
    codes, last_leases, start = list[VerdictCode](), list[Any](), 0
    for index, transition in enumerate(transitions):
        if transition.target is not None:
            more, leases = _apply_between(scripts, queue, transitions[start:index])
            codes += [*more, _move(scripts, queue, transition, transition.target)]
            last_leases += leases
            start = index + 1
    more, leases = _apply_between(scripts, queue, transitions[start:])
    return ApplyAnswer(codes + more, last_leases + leases)


def _apply_between(
    scripts: Scripts, queue: QueueKey, transitions: Sequence[Transition]
) -> ApplyAnswer:
    if not transitions:
        return ApplyAnswer([], [])
    codes, last_leases = scripts.apply(queue, transitions)
    if any(transition.undelivered_keys for transition in transitions):
        transfer_keys(scripts, queue)
    return ApplyAnswer(codes or [NO_JOB] * len(transitions), last_leases)


def _move(
    scripts: Scripts, queue: QueueKey, transition: Transition, target: QueueKey
) -> VerdictCode:
    found = scripts.get(target, [transition.id], None)
    id_taken = any(not _past_retention(job.record.state, job.at, found.now) for job in found.jobs)
    code = scripts.move_out(queue, transition, id_taken=id_taken)
    if code == NO_JOB or code >= REFUSED:
        return code
    return code if finish_move(scripts, queue, transition.id) else code + REFUSED


def _past_retention(state: State, at: float, now: float) -> bool:
    return state.terminal and at <= now


def finish_move(scripts: Scripts, queue: QueueKey, id: str) -> bool:
    """Insert a moving job into its new queue, or back into its old one if its id is taken there."""
    names = scripts.names
    with scripts.connection.translate_errors:
        moving = scripts.connection.client.hget(f"{names.base(queue)}:moving", id)
    if moving is None:
        # Another process has finished the move.
        return True
    fields = _decode(moving)
    entry, move = (_decode_text(fields[name]) for name in ("entry", "move"))
    target = names.queue_of(entry)
    accepted = scripts.move_in(target, id, moving, move, back=False)
    if not accepted and not scripts.move_in(queue, id, moving, f"{move} back", back=True):
        logger.error(
            "job %r cannot be moved from queue %s to %s: both have another job with this id; "
            "it is kept and moves back once the id is free",
            id,
            queue,
            target,
        )
        return False
    scripts.move_done(queue, id, moving)
    scripts.move_forget(target, move)
    scripts.move_forget(queue, f"{move} back")
    return accepted


def transfer_keys(scripts: Scripts, queue: QueueKey) -> None:
    """Transfer the keys of undelivered jobs to the tenant's key-value store."""
    source = scripts.names.undelivered_keys_base(queue)
    target = scripts.names.key_values_base(queue.tenant)
    while keys := scripts.read_keys(source, (), None, KEYS_PAGE_SIZE):
        for key in keys:
            # Even if no memory is left: what is written there is deleted here.
            write = KeyWrite(key=key.key, value=key.value)
            scripts.write_keys(target, [write], even_if_full=True)
            delete = KeyWrite(key=key.key, value=None, version=key.version)
            scripts.write_keys(source, [delete], even_if_full=True)


def finish_moves(scripts: Scripts, queue: QueueKey) -> None:
    """Complete moves and transfers of keys that a crash has interrupted."""
    transfer_keys(scripts, queue)
    with scripts.connection.translate_errors:
        ids = scripts.connection.client.hkeys(f"{scripts.names.base(queue)}:moving")
    for id in ids:
        finish_move(scripts, queue, id.decode())
