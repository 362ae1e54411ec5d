"""The heartbeats of workers."""

from __future__ import annotations

from collections.abc import Sequence

from ackline.job import QueueKey, State
from ackline.lifecycle import kept_until
from ackline.stores.base import BeatReply, Hold, WorkerBeat
from ackline.stores.shared.records import encode_beat
from ackline.stores.sqlite.lines import Lines, make_lines
from ackline.stores.sqlite.queries import sql
from ackline.stores.sqlite.rows import numbers, rows_by_ids
from ackline.stores.sqlite.standing import AT, CANCEL, ID, SLOT, TOKEN
from ackline.stores.sqlite.transaction import Transaction


def heartbeat(
    tx: Transaction, queue: QueueKey, beat: WorkerBeat, holds: Sequence[Hold], now: float
) -> BeatReply:
    """Note that a worker is alive, and extend its leases."""
    lines = make_lines(tx, queue)
    if beat.ttl > 0:
        values = (lines.num, beat.id, encode_beat(beat), now, now + beat.ttl)
        tx.execute(sql("beat"), values)
    else:
        tx.execute(sql("goodbye"), (lines.num, beat.id))
    return _extend(lines, holds, now)


def _extend(lines: Lines, holds: Sequence[Hold], now: float) -> BeatReply:
    ids = [hold.id for hold in holds]
    rows = rows_by_ids(lines.tx.execute, "standings", "standing", lines.num, ids)
    found = {row[ID]: row for row in rows}
    leased = lines.slot(State.PROCESSING)
    reply = BeatReply([], [])
    by_deadline: dict[float, list[int]] = {}
    for index, hold in enumerate(holds):
        row = found.get(hold.id)
        if row is None or row[SLOT] != leased or row[TOKEN] != hold.token or row[AT] <= now:
            reply.lost.append(index)
            continue
        deadline = kept_until(row[AT], now, hold.seconds)
        by_deadline.setdefault(deadline, []).append(row[0])
        if row[CANCEL]:
            reply.cancelled.append(index)
    for deadline, nums in by_deadline.items():
        lines.tx.execute(sql("extend"), (deadline, numbers(nums)))
    return reply
