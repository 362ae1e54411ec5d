"""Take jobs out of their lines, in order."""

from __future__ import annotations

import time
from typing import Any

from ackline.events import Act, Entry
from ackline.job import State
from ackline.stores.base import REPAIR_LIMIT
from ackline.stores.postgres.arrays import Floats, Ints
from ackline.stores.postgres.codes import PROMOTED, name_of
from ackline.stores.postgres.exchange import Row
from ackline.stores.postgres.hints import Lane, Look, Place
from ackline.stores.postgres.homes import Past
from ackline.stores.postgres.queues import QueueEntry
from ackline.stores.postgres.transaction import Again, Sent, Transaction
from ackline.stores.shared.records import SETTLING, STATES

_SAME, _DUE, _SEEN, _RANK, _JOB, _LINE, _LANE, _ATTEMPTS, _TOKEN = range(9)
_WORKER, _STARTED, _ACT = 16, 17, 18
"""Columns of a row of `pick`."""


class Picking:
    """The looks of one claim."""

    def __init__(self, tx: Transaction, entry: QueueEntry) -> None:
        self.seen = 0
        """How many jobs the last look saw, including those that others have locked."""
        self._tx = tx
        self._entry = entry
        # Jobs promoted in a caller's transaction would have to wait for its end.
        self._promoted = tx.callers
        self._sent: tuple[float, Sent] | None = None

    def send(self, look: Look, limit: int, max_bytes: int | None) -> None:
        """Request the next jobs; `pick` waits for the answer."""
        began, values = time.monotonic(), self._values(look, limit)
        if max_bytes is None:
            self._sent = began, self._tx.send("pick", values)
        else:
            values |= {"max_bytes": max_bytes}
            self._sent = began, self._tx.send("pick_within", values)

    def pick(self, look: Look, limit: int, max_bytes: int | None) -> list[Row]:
        """Take the next jobs; due ones are promoted first."""
        while True:
            if self._sent is None:
                self.send(look, limit, max_bytes)
            first, rows = self._receive(look)
            if not first[_SAME]:
                # The settings have changed in between.
                raise Again
            if not first[_DUE] or self._promoted:
                break
            promote(self._tx, self._entry, REPAIR_LIMIT)
            self._promoted = True
            look = self._entry.hints.look(dict.fromkeys(look.lines))
        self.seen = first[_SEEN]
        self._note(look, rows)
        return rows

    def _values(self, look: Look, limit: int) -> dict[str, Any]:
        return {
            "queue": self._entry.num,
            "version": self._entry.version,
            "now": self._tx.clock,
            "promoted": int(self._promoted),
            "lines": Ints(look.lines),
            "lanes": Ints(look.lanes),
            "ranks": Floats(look.ranks),
            "jobs": Ints(look.jobs),
            "limit": limit,
        }

    def _receive(self, look: Look) -> tuple[Row, list[Row]]:
        assert self._sent is not None
        (sent_at, cursor), self._sent = self._sent, None
        rows = cursor.fetchall()
        look.cost = time.monotonic() - sent_at
        taken = [row for row in rows if row[_JOB] is not None]
        taken.sort(key=_place_of)
        return rows[0], taken

    def _note(self, look: Look, rows: list[Row]) -> None:
        last: dict[Lane, Place] = {}
        for row in rows:
            last[row[_LINE], row[_LANE]] = (row[_RANK], row[_JOB])
        hints = self._entry.hints
        self._tx.committed.append(lambda: hints.took(look, last))


def _place_of(row: Row) -> Place:
    return row[_RANK], row[_JOB]


def past_of(row: Row) -> Past:
    """What a row of `pick` says about an earlier lease."""
    act = row[_ACT]
    return Past(
        row[_ATTEMPTS] or 0,
        row[_TOKEN] or 0,
        name_of(row[_WORKER]) if row[_WORKER] else "",
        row[_STARTED],
        None if act is None else SETTLING[act],
    )


def promote(tx: Transaction, entry: QueueEntry, limit: int) -> int:
    """Queue the jobs that are due, in the order of their times."""
    values = {"queue": entry.num, "now": tx.now, "limit": limit, "ageing": entry.settings.ageing}
    rows = sorted(tx.rows("promote", values))
    if not rows:
        return 0
    changes, lowest = tx.changes_of(entry.key, entry.num), dict[Lane, Place]()
    for at, num, id, kind, priority, code, attempts, line in rows:
        source = STATES[code]
        tx.shift(entry.num, source, State.QUEUED)
        changes.entries.append(
            Entry(Act.PROMOTE, id.decode(), name_of(kind), source, State.QUEUED, attempts)
        )
        place = (at - priority * entry.settings.ageing, num)
        lane = (line, PROMOTED + priority)
        lowest[lane] = min(place, lowest.get(lane, place))
    for (line, lane_number), place in lowest.items():
        # At once, not after the commit: this transaction may be about to look for them.
        entry.hints.lower(line, lane_number, place)
    tx.news.add(("ready", entry.key))
    return len(rows)
