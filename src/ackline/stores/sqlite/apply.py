"""Apply decided transitions, each if its guard holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ackline.core.events import Act
from ackline.core.job import Failure, Options, QueueKey, State
from ackline.core.lifecycle import Transition, Verdict
from ackline.stores.contract import HISTORY_LIMIT
from ackline.stores.shared.apply import AppliedChange, ApplyPlan, MutableJob
from ackline.stores.shared.record_encoding import (
    ACT_CODES,
    SETTLING_ACTS,
    decode_options,
    encode_failure,
)
from ackline.stores.sqlite.key_values import put_key
from ackline.stores.sqlite.queue_writer import QueueWriter, ensure_queue, find_queue
from ackline.stores.sqlite.rows import Row, history_of, int_array, rows_by_ids, state_of_list
from ackline.stores.sqlite.sql import sql

_COMPLETE, _PROCESSING = Act.COMPLETE, State.PROCESSING

ID, KIND, GROUP, LIST, AT, ATTEMPTS, TOKEN, WORKER, CANCEL_REQUESTED = 1, 2, 3, 5, 6, 8, 9, 10, 14
"""Columns of a row of `standings`."""


class JobRow(MutableJob):
    """A job within a batch of transitions; its changes are written at the end of the batch."""

    __slots__ = ("list_id",)

    def __init__(self, row: Row) -> None:
        num, id, kind, group, priority, *stands = row
        super().__init__(num, id, kind, group, priority)
        (
            self.list_id, self.at, self.rank, self.attempts, self.token, self.worker,
            self.started_at, self.finished_at, act, cancel, self.progress,
        ) = stands  # fmt: skip
        self.state = state_of_list(self.list_id)
        self.act = None if act is None else SETTLING_ACTS[act]
        self.cancel_requested = cancel != 0

    def change_list(self, lines: QueueWriter, source: State) -> None:
        """Go from the line of this state to that of its state now, if that is another state."""
        slot = self.list_id
        if self.state is not source:
            queued = self.state is State.QUEUED
            self.list_id = (
                lines.ready_list(self.kind) if queued else lines.list_of_state(self.state)
            )
        lines.change_counts(slot, self.list_id)

    def row(self) -> Row:
        """What `set_standing` writes."""
        act = None if self.act is None else ACT_CODES[self.act]
        return (
            self.num, self.list_id, self.at, self.rank, self.attempts, self.finished_at, act,
            int(self.cancel_requested), self.progress,
        )  # fmt: skip


def save_rows(lines: QueueWriter, changed: list[JobRow]) -> None:
    """Write where these jobs stand now."""
    if changed:
        lines.tx.executemany(sql("set_standing"), [standing.row() for standing in changed])


def apply(lines: QueueWriter, transitions: Sequence[Transition], now: float) -> list[Verdict]:
    """Apply a batch; the verdicts come in its order."""
    ids = [transition.id for transition in transitions]
    rows = rows_by_ids(lines.tx.execute, "standings", "standing", lines.num, ids)
    batch = _ApplyPlan(lines, {row[ID]: row for row in rows}, len(ids), now)
    if len(set(ids)) == len(ids):
        others = batch.complete(transitions)
    else:
        # One by one: a later transition must see what an earlier one did to the same job.
        others = list(enumerate(transitions))
    for index, transition in others:
        batch.apply(index, transition)
    batch.finish()
    return batch.verdicts


class _ApplyPlan(ApplyPlan[JobRow]):
    """The transitions of one call, on their way into the file."""

    def __init__(self, lines: QueueWriter, rows: dict[str, Row], size: int, now: float) -> None:
        super().__init__(lines.key, lines.settings, size, now)
        self._lines = lines
        self._rows = rows
        self._jobs: dict[str, JobRow | None] = {}
        self._changed: dict[int, JobRow] = {}

    def complete(self, transitions: Sequence[Transition]) -> list[tuple[int, Transition]]:
        """Apply all plain completions of a lease in a few statements; returns the other ones."""
        others: list[tuple[int, Transition]] = []
        by_keep: dict[float, list[int]] = {}
        results: list[tuple[int, bytes]] = []
        processing, rows, note = (
            self._lines.list_of_state(_PROCESSING),
            self._rows,
            self.record_completion,
        )
        for index, transition in enumerate(transitions):
            row = rows.get(transition.id)
            if (
                row is None
                or transition.act is not _COMPLETE
                or row[LIST] != processing
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
        completed = lines.list_of_state(State.COMPLETED)
        for keep, nums in by_keep.items():
            values = (completed, now + keep, now, ACT_CODES[_COMPLETE], int_array(nums))
            lines.tx.execute(sql("finish"), values)
            lines.change_counts(lines.list_of_state(_PROCESSING), completed, len(nums))
        if results:
            lines.tx.executemany(sql("add_result"), results)

    def find(self, id: str) -> JobRow | None:
        if id not in self._jobs:
            row = self._rows.get(id)
            self._jobs[id] = None if row is None else JobRow(row)
        return self._jobs[id]

    def payload_of(self, job: JobRow) -> bytes:
        [(payload,)] = self._lines.tx.execute(sql("payload_of"), (job.num,)).fetchall()
        return bytes(payload)

    def last_settling(self, job: JobRow) -> tuple[bytes | None, Sequence[Failure]]:
        execute = self._lines.tx.execute
        rows = execute(sql("result_of"), (job.num,)).fetchall()
        return rows[0][0] if rows else None, history_of(execute, job.num)

    def options_of(self, jobs: Sequence[int]) -> Mapping[int, Options]:
        rows = self._lines.tx.execute(sql("options_of"), (int_array(jobs),)).fetchall()
        return {num: decode_options(data) for num, data in rows}

    def write(self, job: JobRow, transition: Transition, change: AppliedChange) -> None:
        lines, execute = self._lines, self._lines.tx.execute
        if change.attempt is not None:
            values = (job.num, encode_failure(change.attempt))
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
        job.change_list(lines, change.source)
        self._changed[job.num] = job

    def write_key(self, key: tuple[str, ...], job: JobRow) -> None:
        put_key(self._lines.tx, self.queue.tenant, key, self.payload_of(job))

    def move(self, job: JobRow, target: QueueKey) -> bool:
        lines = self._lines
        there = find_queue(lines.tx, target)
        if there is not None and not self._make_way(there, job.id):
            return False
        if there is None or there.dropped:
            there = ensure_queue(lines.tx, target)
        lines.change_counts(job.list_id, None)
        lines.tx.execute(sql("set_queue"), (there.num, job.num))
        job.list_id = (
            there.ready_list(job.kind) if job.list_id > 0 else there.list_of_state(job.state)
        )
        there.change_counts(None, job.list_id)
        save_rows(there, [job])
        # A job's tokens must grow, whichever queue hands them out.
        there.raise_token(job.token)
        there.write_counts()
        self._changed.pop(job.num, None)
        self._jobs[job.id] = None
        return True

    def _make_way(self, there: QueueWriter, id: str) -> bool:
        """Drop the target's job of this id if its retention is over; False if it has to stay."""
        for row in there.tx.execute(sql("standing"), (there.num, id)).fetchall():
            old = JobRow(row)
            if not old.past_retention(self.now):
                return False
            there.drop_jobs([(old.num, old.list_id)])
        return True

    def finish(self) -> None:
        """Write the changed jobs, their journal entries and counts."""
        lines = self._lines
        save_rows(lines, list(self._changed.values()))
        lines.write_journal(self.now, self.entries())
        lines.write_counts()
        for target, entry in self.moved_in:
            there = ensure_queue(lines.tx, target)
            there.write_journal(self.now, [entry])
            there.write_counts()
        lines.free_groups(self.freed_groups)
