"""Changes that cross the slots of a cluster, in steps that can be repeated after any crash.

A script reaches only one slot. So a job that moves goes from its queue into a hash beside it
(:away), arrives in the other queue, and only then leaves the hash; keys of undelivered jobs wait
beside their queue until they are in the tenant's room. A prune completes what a crash left halfway.
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
"""A verdict as the scripts return it."""

_decode = msgspec.msgpack.Decoder(dict[str, msgspec.Raw]).decode
_decode_text = msgspec.msgpack.Decoder(str).decode


def apply_in_cluster(
    scripts: Scripts, queue: QueueKey, transitions: Sequence[Transition]
) -> ApplyAnswer:
    """Apply in order: moves one by one, the transitions between two moves together."""
    codes, ends, start = list[VerdictCode](), list[Any](), 0
    for index, transition in enumerate(transitions):
        if transition.target is not None:
            more, explained = _apply_between(scripts, queue, transitions[start:index])
            codes += [*more, _move(scripts, queue, transition, transition.target)]
            ends += explained
            start = index + 1
    more, explained = _apply_between(scripts, queue, transitions[start:])
    return ApplyAnswer(codes + more, ends + explained)


def _apply_between(
    scripts: Scripts, queue: QueueKey, transitions: Sequence[Transition]
) -> ApplyAnswer:
    if not transitions:
        return ApplyAnswer([], [])
    codes, ends = scripts.apply(queue, transitions)
    if any(transition.undelivered_keys for transition in transitions):
        transfer_keys(scripts, queue)
    return ApplyAnswer(codes or [NO_JOB] * len(transitions), ends)


def _move(
    scripts: Scripts, queue: QueueKey, transition: Transition, target: QueueKey
) -> VerdictCode:
    there = scripts.get(target, [transition.id], None)
    taken = any(not _past_retention(seen.record.state, seen.at, there.now) for seen in there.jobs)
    code = scripts.move_out(queue, transition, taken=taken)
    if code == NO_JOB or code >= REFUSED:
        return code
    return code if finish_move(scripts, queue, transition.id) else code + REFUSED


def _past_retention(state: State, at: float, now: float) -> bool:
    return state.terminal and at <= now


def finish_move(scripts: Scripts, queue: QueueKey, id: str) -> bool:
    """Bring a moving job to its new queue; or back, if its id is taken there."""
    names = scripts.names
    with scripts.connection.translate_errors:
        away = scripts.connection.client.hget(f"{names.base(queue)}:moving", id)
    if away is None:
        # Another process has brought it.
        return True
    kept = _decode(away)
    entry, move = (_decode_text(kept[field]) for field in ("entry", "move"))
    arrived = scripts.move_in(names.queue_of(entry), id, away, move, back=False)
    if not arrived and not scripts.move_in(queue, id, away, f"{move} back", back=True):
        logger.error(
            "job %r is neither in queue %s nor in %s: both have its id. It is kept, and goes back "
            "when the id is free",
            id,
            queue,
            names.queue_of(entry),
        )
        return False
    scripts.move_done(queue, id, away)
    scripts.move_forget(names.queue_of(entry), move)
    scripts.move_forget(queue, f"{move} back")
    return arrived


def transfer_keys(scripts: Scripts, queue: QueueKey) -> None:
    """Bring the keys of undelivered jobs to the tenant's room."""
    here, room = (
        scripts.names.undelivered_keys_base(queue),
        scripts.names.key_values_base(queue.tenant),
    )
    while kept := scripts.read_keys(here, (), None, KEYS_PAGE_SIZE):
        for key in kept:
            # Even if memory is short: what is written there is dropped here.
            arriving = KeyWrite(key=key.key, value=key.value)
            scripts.write_keys(room, [arriving], even_if_full=True)
            leaving = KeyWrite(key=key.key, value=None, version=key.version)
            scripts.write_keys(here, [leaving], even_if_full=True)


def finish_moves(scripts: Scripts, queue: QueueKey) -> None:
    """Complete moves and deliveries of keys that a crash left halfway."""
    transfer_keys(scripts, queue)
    with scripts.connection.translate_errors:
        ids = scripts.connection.client.hkeys(f"{scripts.names.base(queue)}:moving")
    for id in ids:
        finish_move(scripts, queue, id.decode())
