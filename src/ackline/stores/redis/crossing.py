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

from ackline.job import QueueKey, State
from ackline.lifecycle import Transition
from ackline.stores.base import KeyWrite
from ackline.stores.redis.key_scripts import run_read_keys, run_write_keys
from ackline.stores.redis.packing import GONE, REFUSED, in_full, seen_jobs
from ackline.stores.redis.queue_script import QueueScripts
from ackline.stores.redis.steps import Steps

logger = logging.getLogger("ackline")

MANY = 1000

Code = int
"""A verdict as the scripts return it."""

Applied = tuple[list[Code], list[Any]]
"""A verdict for each transition; and for refused ones, how the job's last lease ended (see
`ended_leases`)."""

_decode = msgspec.msgpack.Decoder(dict[str, msgspec.Raw]).decode
_decode_text = msgspec.msgpack.Decoder(str).decode


def apply_in_cluster(
    scripts: QueueScripts, queue: QueueKey, transitions: Sequence[Transition]
) -> Applied:
    """Apply in order: moves one by one, the transitions between two moves together."""
    codes, ends, start = list[Code](), list[Any](), 0
    for index, transition in enumerate(transitions):
        if transition.target is not None:
            more, explained = _apply_between(scripts, queue, transitions[start:index])
            codes += [*more, _move(scripts, queue, transition, transition.target)]
            ends += explained
            start = index + 1
    more, explained = _apply_between(scripts, queue, transitions[start:])
    return codes + more, ends + explained


def _apply_between(
    scripts: QueueScripts, queue: QueueKey, transitions: Sequence[Transition]
) -> Applied:
    if not transitions:
        return [], []
    runs, ends = scripts.change("apply", queue, Steps(scripts.names, queue).pack(transitions))
    if any(transition.keys for transition in transitions):
        deliver_keys(scripts, queue)
    return in_full(runs) or [GONE] * len(transitions), ends


def _move(scripts: QueueScripts, queue: QueueKey, transition: Transition, target: QueueKey) -> Code:
    time, flat, _ = scripts.run("get", target, ["", transition.id])
    taken = any(not _over(seen.record.state, seen.at, float(time)) for seen in seen_jobs(flat))
    step = Steps(scripts.names, queue).pack_departure(transition, taken)
    code = int(scripts.change("depart", queue, [transition.id, step]))
    if code == GONE or code >= REFUSED:
        return code
    return code if finish_move(scripts, queue, transition.id) else code + REFUSED


def _over(state: State, at: float, now: float) -> bool:
    return state.terminal and at <= now


def finish_move(scripts: QueueScripts, queue: QueueKey, id: str) -> bool:
    """Bring a moving job to its new queue; or back, if its id is taken there."""
    names = scripts.names
    with scripts.connection.translated:
        away = scripts.connection.client.hget(f"{names.base(queue)}:away", id)
    if away is None:
        # Another process has brought it.
        return True
    kept = _decode(away)
    entry, move = (_decode_text(kept[field]) for field in ("entry", "move"))
    arrived = scripts.change("arrive", names.queue_of(entry), [id, away, move, "here"])
    if not arrived and not scripts.change("arrive", queue, [id, away, f"{move} back", "back"]):
        logger.error(
            "job %r is neither in queue %s nor in %s: both have its id. It is kept, and goes back "
            "when the id is free",
            id,
            queue,
            names.queue_of(entry),
        )
        return False
    scripts.change("settled", queue, [id, away])
    scripts.change("forget", names.queue_of(entry), [move])
    scripts.change("forget", queue, [f"{move} back"])
    return bool(arrived)


def deliver_keys(scripts: QueueScripts, queue: QueueKey) -> None:
    """Bring the keys of undelivered jobs to the tenant's room."""
    here, room = scripts.names.room_of(queue), scripts.names.room(queue.tenant)
    connection = scripts.connection
    while kept := run_read_keys(connection, here, (), None, MANY):
        for key in kept:
            # Even if memory is short: what is written there is dropped here.
            arriving = KeyWrite(key=key.key, value=key.value)
            run_write_keys(connection, room, [arriving], insist=True)
            leaving = KeyWrite(key=key.key, value=None, version=key.version)
            run_write_keys(connection, here, [leaving], insist=True)


def finish_crossings(scripts: QueueScripts, queue: QueueKey) -> None:
    """Complete moves and deliveries of keys that a crash left halfway."""
    deliver_keys(scripts, queue)
    with scripts.connection.translated:
        ids = scripts.connection.client.hkeys(f"{scripts.names.base(queue)}:away")
    for id in ids:
        finish_move(scripts, queue, id.decode())
