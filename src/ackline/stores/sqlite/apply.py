"""Apply decided transitions, each if its guard holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ackline.events import Act
from ackline.job import Failure, Options, QueueKey, State
from ackline.lifecycle import Transition, Verdict
from ackline.stores.base import HISTORY_LIMIT
from ackline.stores.shared.apply import ApplyBatch, Change, JobState
from ackline.stores.shared.records import ACT_CODE, SETTLING, decode_options, encode_failure
from ackline.stores.sqlite.keys import put_key
from ackline.stores.sqlite.queries import sql
from ackline.stores.sqlite.rows import Row, history_of, numbers, rows_by_ids, state_in
from ackline.stores.sqlite.transaction import Lines, find_lines, make_lines

_COMPLETE, _PROCESSING = Act.COMPLETE, State.PROCESSING

ID, KIND, GROUP, SLOT, AT, ATTEMPTS, TOKEN, WORKER, CANCEL = 1, 2, 3, 5, 6, 8, 9, 10, 14
"""Columns of a row of `standings`."""


class Standing(JobState):
    """A job within a batch of transitions; its changes are written at the end of the batch."""

    __slots__ = ("slot",)

    def __init__(self, row: Row) -> None:
        num, id, kind, group, priority, *stands = row
        super().__init__(num, id, kind, group, priority)
        (
            self.slot, self.at, self.rank, self.attempts, self.token, self.worker, self.started_at,
            self.finished_at, act, cancel, self.progress,
        ) = stands  # fmt: skip
        self.state = state_in(self.slot)
        self.act = None if act is None else SETTLING[act]
        self.cancel_requested = cancel != 0

    def change_line(self, lines: Lines, source: State) -> None:
        """Go from the line of this state to that of its state now, if that is another state."""
        slot = self.slot
        if self.state is not source:
            queued = self.state is State.QUEUED
            self.slot = lines.ready(self.kind) if queued else lines.slot(self.state)
        lines.shift(slot, self.slot)

    def row(self) -> Row:
        """What `set_standing` writes."""
        act = None if self.act is None else ACT_CODE[self.act]
        return (
            self.num, self.slot, self.at, self.rank, self.attempts, self.finished_at, act,
            int(self.cancel_requested), self.progress,
        )  # fmt: skip


def save(lines: Lines, changed: list[Standing]) -> None:
    """Write where these jobs stand now."""
    if changed:
        lines.tx.executemany(sql("set_standing"), [standing.row() for standing in changed])


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


class _Batch(ApplyBatch[Standing]):
    """The transitions of one call, on their way into the file."""

    def __init__(self, lines: Lines, rows: dict[str, Row], size: int, now: float) -> None:
        super().__init__(lines.key, lines.settings, size, now)
        self._lines = lines
        self._rows = rows
        self._standings: dict[str, Standing | None] = {}
        self._changed: dict[int, Standing] = {}

    def complete(self, transitions: Sequence[Transition]) -> list[tuple[int, Transition]]:
        """Apply all plain completions of a lease in a few statements; returns the other ones."""
        others: list[tuple[int, Transition]] = []
        by_keep: dict[float, list[int]] = {}
        results: list[tuple[int, bytes]] = []
        processing, rows, note = self._lines.slot(_PROCESSING), self._rows, self.note_completion
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
            num = row[0]
            by_keep.setdefault(transition.keep, []).append(num)
            if transition.result is not None:
                results.append((num, transition.result))
            note(
                index, transition, num, row[KIND], row[GROUP], row[ATTEMPTS], row[TOKEN],
                row[WORKER],
            )  # fmt: skip
        self._finish_many(by_keep, results)
        return others

    def _finish_many(
        self, by_keep: dict[float, list[int]], results: list[tuple[int, bytes]]
    ) -> None:
        lines, now = self._lines, self.now
        completed = lines.slot(State.COMPLETED)
        for keep, nums in by_keep.items():
            values = (completed, now + keep, now, ACT_CODE[_COMPLETE], numbers(nums))
            lines.tx.execute(sql("finish"), values)
            lines.shift(lines.slot(_PROCESSING), completed, len(nums))
        if results:
            lines.tx.executemany(sql("add_result"), results)

    def find(self, id: str) -> Standing | None:
        if id not in self._standings:
            row = self._rows.get(id)
            self._standings[id] = None if row is None else Standing(row)
        return self._standings[id]

    def payload_of(self, job: Standing) -> bytes:
        [(payload,)] = self._lines.tx.execute(sql("payload_of"), (job.num,)).fetchall()
        return bytes(payload)

    def ends_of(self, job: Standing) -> tuple[bytes | None, Sequence[Failure]]:
        execute = self._lines.tx.execute
        rows = execute(sql("result_of"), (job.num,)).fetchall()
        return rows[0][0] if rows else None, history_of(execute, job.num)

    def options_of(self, jobs: Sequence[int]) -> Mapping[int, Options]:
        rows = self._lines.tx.execute(sql("options_of"), (numbers(jobs),)).fetchall()
        return {num: decode_options(data) for num, data in rows}

    def write(self, job: Standing, transition: Transition, change: Change) -> None:
        lines, execute = self._lines, self._lines.tx.execute
        if change.ended is not None:
            values = (job.num, encode_failure(change.ended))
            n = execute(sql("add_attempt"), values).fetchall()[0][0]
            if n > HISTORY_LIMIT:
                execute(sql("forget_attempts"), (job.num, n - HISTORY_LIMIT))
        if transition.edit is not None:
            if transition.edit.payload is not None:
                execute(sql("set_payload"), (transition.edit.payload, job.num))
            if transition.edit.priority is not None:
                execute(sql("set_priority"), (job.priority, job.num))
        if transition.result is not None:
            execute(sql("add_result"), (job.num, transition.result))
        job.change_line(lines, change.source)
        self._changed[job.num] = job

    def put_key(self, key: tuple[str, ...], job: Standing) -> None:
        put_key(self._lines.tx, self.queue.tenant, key, self.payload_of(job))

    def move(self, job: Standing, target: QueueKey) -> bool:
        lines = self._lines
        there = find_lines(lines.tx, target)
        if there is not None and not self._make_way(there, job.id):
            return False
        if there is None or there.dropped:
            there = make_lines(lines.tx, target)
        lines.shift(job.slot, None)
        lines.tx.execute(sql("set_queue"), (there.num, job.num))
        job.slot = there.ready(job.kind) if job.slot > 0 else there.slot(job.state)
        there.shift(None, job.slot)
        save(there, [job])
        # A job's tokens must grow, whichever queue hands them out.
        there.keep_token(job.token)
        there.flush()
        self._changed.pop(job.num, None)
        self._standings[job.id] = None
        return True

    def _make_way(self, there: Lines, id: str) -> bool:
        """Drop the target's job of this id if its retention is over; False if it has to stay."""
        for row in there.tx.execute(sql("standing"), (there.num, id)).fetchall():
            old = Standing(row)
            if not old.over(self.now):
                return False
            there.drop_jobs([(old.num, old.slot)])
        return True

    def finish(self) -> None:
        """Write the changed jobs, their journal entries and counts."""
        lines = self._lines
        save(lines, list(self._changed.values()))
        lines.write_journal(self.now, self.entries())
        lines.flush()
        for target, entry in self.arrivals:
            there = make_lines(lines.tx, target)
            there.write_journal(self.now, [entry])
            there.flush()
        lines.leave_groups(self.left)
