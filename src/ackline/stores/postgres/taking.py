"""The jobs that a claim takes: the next in line whose groups have room, each with a lease."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from ackline.errors import CannotJoin
from ackline.events import Act, Entry
from ackline.job import Record, State
from ackline.stores.base import ClaimRequest
from ackline.stores.budget import Budget
from ackline.stores.postgres.arrays import Floats, Ints
from ackline.stores.postgres.codes import ODD, name_of
from ackline.stores.postgres.exchange import Row
from ackline.stores.postgres.groups import change_groups, enter_free
from ackline.stores.postgres.hints import Look
from ackline.stores.postgres.homes import Homes
from ackline.stores.postgres.picking import Picking, past_of
from ackline.stores.postgres.queues import QueueEntry
from ackline.stores.postgres.transaction import Transaction
from ackline.stores.shared.records import decode_options

_CLAIM, _QUEUED, _PROCESSING = Act.CLAIM, State.QUEUED, State.PROCESSING
_RANK, _JOB, _ATTEMPTS, _TOKEN = 3, 4, 7, 8
_ID, _KIND, _GROUP, _PRIORITY, _CREATED, _OPTIONS, _PAYLOAD = 9, 10, 11, 12, 13, 14, 15
"""Columns of a row of `pick`."""

LOOKS = 3
"""How often one claim looks again after other claims were quicker to take the jobs."""

STRIDE = 500
"""The most jobs that are read beyond the wanted number, to get past a full group."""

MOST_PARKED = 5000
"""The most jobs of full groups that one transaction parks: others wait for its end."""


class Taking:
    """The jobs that one claim takes."""

    def __init__(
        self,
        tx: Transaction,
        entry: QueueEntry,
        request: ClaimRequest,
        *,
        reads_past_busy: bool = True,
    ) -> None:
        """Unless it `reads_past_busy`, it stops at a group that another transaction has locked."""
        self._tx = tx
        self._entry = entry
        self._request = request
        limit = entry.settings.group_limit
        self._most_of_a_group = math.inf if request.ignore_group_limit else limit
        self._reads_past_busy = reads_past_busy
        self._token = 0
        self._picking = Picking(tx, entry)
        kinds, lines = request.kinds, entry.lines
        self._wanted = [line for kind, line in lines.items() if kinds is None or kind in kinds]
        self._look: Look | None = None
        self._again = False
        self._homes = Homes(tx, entry)
        self._taken: list[Row] = []
        self._entered: Counter[str] = Counter()
        self._running: dict[str, int] = {}
        self._busy: set[str] = set()
        self._parked = self._left_there = 0
        self._budget = Budget(request.max_bytes)

    @property
    def cut_short(self) -> bool:
        """Whether it has stopped among jobs of full groups, and has taken none."""
        return not self._taken and self._parked >= MOST_PARKED

    @property
    def more(self) -> bool:
        """Whether it has stopped early, because of the size of the jobs or at a locked group."""
        return self._budget.reached or self.stopped

    @property
    def stopped(self) -> bool:
        """Whether it has stopped at a group that another transaction has locked."""
        return bool(self._busy) and not self._reads_past_busy

    @property
    def passed(self) -> bool:
        """Whether it has passed over jobs that others have locked, and has taken none."""
        return not self._taken and (self._picking.seen > 0 or bool(self._busy))

    def begin(self) -> None:
        """Request jobs, without waiting for the answer yet."""
        self._look = self._entry.hints.look(self._wanted)
        self._picking.send(self._look, max(0, self._request.limit), self._budget.left)

    def run(self, token: int = 0) -> list[Record]:
        """Take the next jobs whose groups have room, and lease them."""
        self._token, picking = token, self._picking
        look: Look | None = self._look or self._entry.hints.look(self._wanted)
        more, vain = 0, 0
        while look is not None:
            need = max(0, self._request.limit - len(self._taken))
            rows = picking.pick(look, need + more, self._budget.left)
            aside = self._sort_out(rows)
            if self._full:
                break
            if self.stopped:
                break
            if max(self._parked, self._left_there) >= MOST_PARKED:
                break
            if aside:
                # Jobs of a full group are in the way: read past them in longer and longer strides.
                more = min(STRIDE, 2 * more + 16)
                continue
            vain += 1
            if picking.seen <= len(rows) or vain > LOOKS:
                look = self._look_again(look)
        self._homes.write()
        if self._running:
            change_groups(
                self._tx, self._entry, {name: self._entered[name] for name in self._running}
            )
        return self._lease() if self._taken else []

    @property
    def _full(self) -> bool:
        return len(self._taken) >= self._request.limit or self._budget.reached

    def _look_again(self, look: Look) -> Look | None:
        """If nothing was found behind the hints, look from further back, once."""
        if look.full or self._taken or self._again:
            return None
        self._again = True
        return self._entry.hints.look_again(self._wanted)

    def _sort_out(self, rows: list[Row]) -> int:
        """Take jobs whose groups have room; returns how many were set aside."""
        groups = {row[_GROUP] for row in rows if row[_GROUP] is not None}
        if groups and self._tx.callers:
            raise CannotJoin(
                f"{self._entry.key} has jobs of groups, whose places would stay locked until you "
                "commit: claim kinds= without groups, or not in a transaction; nothing was done"
            )
        unknown = {name_of(group) for group in groups} - self._running.keys() - self._busy
        if unknown:
            self._running |= enter_free(self._tx, self._entry, unknown)
            self._busy |= unknown - self._running.keys()
        if not groups and len(self._taken) + len(rows) <= self._request.limit:
            for row in rows if self._budget.limited else ():
                self._budget.spend(_size(row))
            self._taken += rows
            return 0
        aside = 0
        for row in rows:
            if self._full:
                self._put_back(row)
            elif row[_GROUP] is None or self._enter(row, name_of(row[_GROUP])):
                self._taken.append(row)
                self._budget.spend(_size(row))
            else:
                aside += 1
        return aside

    def _enter(self, row: Row, group: str) -> bool:
        """Take a place in a job's group; if none is free, the job is set aside."""
        if group in self._busy:
            # Not parked: the lock's holder may already have let the group's parked jobs into line.
            self._put_back(row)
            self._left_there += 1
            return False
        if self._running[group] + self._entered[group] >= self._most_of_a_group:
            self._homes.park(row[_JOB], name_of(row[_KIND]), group, row[_RANK], past_of(row))
            self._parked += 1
            return False
        self._entered[group] += 1
        return True

    def _put_back(self, row: Row) -> None:
        self._homes.ready(row[_JOB], name_of(row[_KIND]), ODD, row[_RANK], past_of(row))

    def _lease(self) -> list[Record]:
        tx, entry, worker = self._tx, self._entry, self._request.worker
        records = [
            _record(row, token, self._request, tx.now)
            for row, token in zip(self._taken, self._tokens(), strict=True)
        ]
        rows_of: dict[tuple[float, int], list[Row]] = {}
        for row, record in zip(self._taken, records, strict=True):
            rows_of.setdefault((record.deadline or 0.0, record.token), []).append(row)
            group = row[_GROUP]
            body = (row[_JOB], record.kind, group and name_of(group), record.priority)
            entry.remember(record.id, body)
        for (deadline, token), rows in rows_of.items():
            values = {"token": token, "queue": entry.num, "worker": worker.encode()}
            values |= {"started": tx.now, "deadline": deadline, "asked": Ints([])}
            values |= _lease_arrays(rows)
            tx.send("add_lease", values)
            entry.ahead.lower(deadline)
        changes = tx.changes_of(entry.key, entry.num)
        tx.shift(entry.num, _QUEUED, _PROCESSING, len(records))
        changes.entries += [
            Entry(_CLAIM, job.id, job.kind, _QUEUED, _PROCESSING, job.attempts, job.token, worker)
            for job in records
        ]
        return records

    def _tokens(self) -> list[int]:
        """A token for each job: the same for all, except for kinds that are leased one by one."""
        tokens = [self._above(max(row[_TOKEN] or 0 for row in self._taken))] * len(self._taken)
        kinds = self._entry.apart
        apart = [n for n, row in enumerate(self._taken) if kinds and name_of(row[_KIND]) in kinds]
        if apart and not self._tx.callers:
            # Rows of their own are not enough: a SERIALIZABLE transaction conflicts with every
            # change of a row that it has read on its way, such as other rows of the same token.
            more = self._tx.rows("more_tokens", {"count": len(apart)})
            for n, (token,) in zip(apart, more, strict=True):
                tokens[n] = token
        return tokens

    def _above(self, highest: int) -> int:
        """A token above those that the jobs had before."""
        if self._token <= highest:
            self._token = self._tx.next_token(highest)
        return self._token


def _size(row: Row) -> int:
    return len(row[_PAYLOAD]) + len(row[_OPTIONS] or b"")


def _lease_arrays(rows: list[Row]) -> dict[str, Any]:
    return {
        "jobs": Ints([row[_JOB] for row in rows]),
        "attempts": Ints([(row[_ATTEMPTS] or 0) + 1 for row in rows]),
        "ranks": Floats([row[_RANK] for row in rows]),
    }


def _record(row: Row, token: int, request: ClaimRequest, now: float) -> Record:
    kind = name_of(row[_KIND])
    options = decode_options(row[_OPTIONS])
    return Record(
        row[_ID].decode(),
        kind,
        _PROCESSING,
        row[_PAYLOAD],
        row[_PRIORITY],
        options,
        (row[_ATTEMPTS] or 0) + 1,
        row[_CREATED],
        token,
        request.worker,
        now,
        now + request.lease_of(kind, options),
    )
