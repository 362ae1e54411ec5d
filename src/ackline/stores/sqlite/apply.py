"""Apply decided transitions, each if its guard holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ackline.events import Act, Entry
from ackline.job import WAITING, State
from ackline.lifecycle import (
    Seen,
    Transition,
    Verdict,
    ends_calling_back,
    holds,
    keys_of,
    note_of,
    repeats,
    seen_now,
    told_priority,
)
from ackline.stores.callbacks import tell_callbacks
from ackline.stores.shared.records import ACT_CODE, decode_options
from ackline.stores.sqlite.groups import leave_groups
from ackline.stores.sqlite.keys import put_key
from ackline.stores.sqlite.lines import Lines
from ackline.stores.sqlite.move import Arrival, arrive, move
from ackline.stores.sqlite.queries import sql
from ackline.stores.sqlite.rows import Row, history_of, numbers, rows_by_ids
from ackline.stores.sqlite.standing import (
    ATTEMPTS,
    GROUP,
    ID,
    KIND,
    SLOT,
    TOKEN,
    WORKER,
    Standing,
    save,
)
from ackline.stores.sqlite.step import step

_COMPLETE, _COMPLETED, _PROCESSING = Act.COMPLETE, State.COMPLETED, State.PROCESSING
_COMPLETE_CODE = ACT_CODE[Act.COMPLETE]
_DONE = Verdict(True, State.COMPLETED)
_GONE = Verdict(False, None)


def apply(lines: Lines, transitions: Sequence[Transition], now: float) -> list[Verdict]:
    """Apply a batch; the verdicts come in its order."""
    ids = [transition.id for transition in transitions]
    rows = rows_by_ids(lines.tx.execute, "standings", "standing", lines.num, ids)
    batch = _Batch(lines, {row[ID]: row for row in rows}, len(ids), now)
    if len(set(ids)) == len(ids):
        others = batch.complete(transitions)
    else:
        # One by one: a later transition must see what an earlier one did to the same job.
        others = list(enumerate(transitions))
    for index, transition in others:
        batch.apply(index, transition)
    batch.finish()
    return batch.verdicts


class _Batch:
    """The transitions of one call, on their way into the file."""

    def __init__(self, lines: Lines, rows: dict[str, Row], size: int, now: float) -> None:
        self.lines = lines
        self.now = now
        self.verdicts = [_GONE] * size
        self._rows = rows
        self._entries: list[Entry | None] = [None] * size
        self._standings: dict[str, Standing | None] = {}
        self._changed: dict[int, Standing] = {}
        self._left: Counter[str] = Counter()
        self._arrivals: list[Arrival] = []
        self._calling: dict[int, int] = {}
        """Indexes of entries that end the life of a job that may call back, each with its job."""

    def complete(self, transitions: Sequence[Transition]) -> list[tuple[int, Transition]]:
        """Apply all plain completions of a lease in a few statements; returns the other ones."""
        others: list[tuple[int, Transition]] = []
        by_keep: dict[float, list[int]] = {}
        results: list[tuple[int, bytes]] = []
        processing, rows = self.lines.slot(_PROCESSING), self._rows
        entries, verdicts = self._entries, self.verdicts
        for index, transition in enumerate(transitions):
            row = rows.get(transition.id)
            if (
                row is None
                or transition.act is not _COMPLETE
                or row[SLOT] != processing
                or row[TOKEN] != transition.token
                or transition.deadline is not None
            ):
                others.append((index, transition))
                continue
            by_keep.setdefault(transition.keep, []).append(row[0])
            if transition.result is not None:
                results.append((row[0], transition.result))
            if row[GROUP] is not None:
                self._left[row[GROUP]] += 1
            if transition.calls_back:
                self._calling[index] = row[0]
            entries[index] = Entry(
                _COMPLETE,
                row[ID],
                row[KIND],
                _PROCESSING,
                _COMPLETED,
                row[ATTEMPTS],
                row[TOKEN],
                row[WORKER],
                transition.note,
                transition.by,
            )
            verdicts[index] = _DONE
        self._finish_many(by_keep, results)
        return others

    def _finish_many(
        self, by_keep: dict[float, list[int]], results: list[tuple[int, bytes]]
    ) -> None:
        lines, now = self.lines, self.now
        completed = lines.slot(_COMPLETED)
        for keep, nums in by_keep.items():
            values = (completed, now + keep, now, _COMPLETE_CODE, numbers(nums))
            lines.tx.execute(sql("finish"), values)
            lines.shift(lines.slot(_PROCESSING), completed, len(nums))
        if results:
            lines.tx.executemany(sql("add_result"), results)

    def apply(self, index: int, transition: Transition) -> None:
        """Apply any one transition if its guard holds."""
        standing = self._find(transition.id)
        if standing is None or standing.over(self.now):
            return
        if transition.seen is not None and transition.seen != self._look_at(standing):
            self.verdicts[index] = Verdict(False, standing.state)
        elif transition.act is Act.MOVE:
            self._move(index, transition, standing)
        elif holds(transition, standing.state, standing.token, _deadline_of(standing), self.now):
            self._step(index, transition, standing)
        else:
            self.verdicts[index] = Verdict(self._repeats(transition, standing), standing.state)

    def _look_at(self, standing: Standing) -> Seen:
        payload = self._payload_of(standing)
        return seen_now(standing.state, standing.token, standing.priority, payload, standing.at)

    def _payload_of(self, standing: Standing) -> bytes:
        [(payload,)] = self.lines.tx.execute(sql("payload_of"), (standing.num,)).fetchall()
        return bytes(payload)

    def _find(self, id: str) -> Standing | None:
        if id not in self._standings:
            row = self._rows.get(id)
            self._standings[id] = None if row is None else Standing(row)
        return self._standings[id]

    def _step(self, index: int, transition: Transition, standing: Standing) -> None:
        source = standing.state
        attempts, token, worker = standing.attempts, standing.token, standing.worker
        step(self.lines, standing, transition, self.now)
        self._changed[standing.num] = standing
        self._entries[index] = Entry(
            transition.act,
            standing.id,
            standing.kind,
            source,
            standing.state,
            attempts,
            token,
            worker,
            note_of(transition),
            transition.by,
            told_priority(transition, standing.priority),
        )
        if ends_calling_back(transition, standing.state):
            self._calling[index] = standing.num
        self.verdicts[index] = Verdict(True, standing.state)
        self._wake(transition.act, standing.state)
        self._mind_group(standing, source)
        for key in keys_of(transition, standing.state):
            put_key(self.lines.tx, self.lines.key.tenant, key, self._payload_of(standing))

    def _wake(self, act: Act, state: State) -> None:
        if act is Act.REQUEST_CANCEL:
            self.lines.tx.wake(self.lines.key, "signals")
        elif state in WAITING:
            # Claimable now, or due sooner than the workers that wait for the next due job know.
            self.lines.tx.wake(self.lines.key, "ready")

    def _mind_group(self, standing: Standing, source: State) -> None:
        if standing.group is None:
            return
        if source is _PROCESSING and standing.state is not _PROCESSING:
            self._left[standing.group] += 1
        elif source is State.QUEUED:
            # The job has left the line or moved in it: another of its group may be next now.
            self._left[standing.group] += 0

    def _move(self, index: int, transition: Transition, standing: Standing) -> None:
        save(self.lines, [standing])
        self._changed.pop(standing.num, None)
        moved = move(self.lines, standing, transition, self.now)
        self.verdicts[index] = Verdict(moved is not None, standing.state)
        if moved is not None:
            self._entries[index], arrival = moved
            self._arrivals.append(arrival)
            self._standings[standing.id] = None
            self._mind_group(standing, standing.state)

    def _repeats(self, transition: Transition, standing: Standing) -> bool:
        execute = self.lines.tx.execute
        rows = execute(sql("result_of"), (standing.num,)).fetchall()
        result = rows[0][0] if rows else None
        history = history_of(execute, standing.num)
        return repeats(transition, standing.act, standing.token, result, history)

    def finish(self) -> None:
        """Write the changed jobs, their journal entries and counts."""
        lines = self.lines
        save(lines, list(self._changed.values()))
        if self._calling:
            self._tell_callbacks()
        lines.write_journal(self.now, [entry for entry in self._entries if entry is not None])
        lines.flush()
        arrive(self._arrivals, self.now)
        leave_groups(lines, self._left)

    def _tell_callbacks(self) -> None:
        rows = self.lines.tx.execute(sql("options_of"), (numbers(self._calling.values()),))
        options = {num: decode_options(data) for num, data in rows.fetchall()}
        tell_callbacks(self._entries, self._calling, options)


def _deadline_of(standing: Standing) -> float | None:
    return standing.at if standing.state is _PROCESSING else None
