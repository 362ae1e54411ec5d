"""Apply transitions, each if its guard holds."""

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
"""Columns of a row of `jobs_by_ids`."""


class JobRow(MutableJob):
    """A job in a batch of transitions; its changes are written at the end of the batch."""

    __slots__ = ("list_id",)

    def __init__(self, row: Row) -> None:
        num, id, kind, group, priority, *state = row
        super().__init__(num, id, kind, group, priority)
        (
            self.list_id, self.at, self.rank, self.attempts, self.token, self.worker,
            self.started_at, self.finished_at, act, cancel, self.progress,
        ) = state  # fmt: skip
        self.state = state_of_list(self.list_id)
        self.act = None if act is None else SETTLING_ACTS[act]
        self.cancel_requested = cancel != 0

    def change_list(self, writer: QueueWriter, source: State) -> None:
        """Move from the list of the state `source` to that of its current state."""
        old_list = self.list_id
        if self.state is not source:
            queued = self.state is State.QUEUED
            self.list_id = (
                writer.ready_list(self.kind) if queued else writer.list_of_state(self.state)
            )
        writer.change_counts(old_list, self.list_id)

    def row(self) -> Row:
        """What `save_job_state` writes."""
        act = None if self.act is None else ACT_CODES[self.act]
        return (
            self.num, self.list_id, self.at, self.rank, self.attempts, self.finished_at, act,
            int(self.cancel_requested), self.progress,
        )  # fmt: skip


def save_rows(writer: QueueWriter, changed: list[JobRow]) -> None:
    """Write the state of these jobs."""
    if changed:
        writer.tx.executemany(sql("save_job_state"), [job.row() for job in changed])


def apply(writer: QueueWriter, transitions: Sequence[Transition], now: float) -> list[Verdict]:
    """Apply a batch; returns the verdicts in the same order."""
    ids = [transition.id for transition in transitions]
    rows = rows_by_ids(writer.tx.execute, "jobs_by_ids", "job_by_id", writer.num, ids)
    batch = _ApplyPlan(writer, {row[ID]: row for row in rows}, len(ids), now)
    if len(set(ids)) == len(ids):
        others = batch.complete(transitions)
    else:
        # One by one: a later transition of a job must see what an earlier one did.
        others = list(enumerate(transitions))
    for index, transition in others:
        batch.apply(index, transition)
    batch.finish()
    return batch.verdicts


class _ApplyPlan(ApplyPlan[JobRow]):
    """The transitions of one call, to be written to the file."""

    def __init__(self, writer: QueueWriter, rows: dict[str, Row], size: int, now: float) -> None:
        super().__init__(writer.key, writer.settings, size, now)
        self._writer = writer
        self._rows = rows
        self._jobs: dict[str, JobRow | None] = {}
        self._changed: dict[int, JobRow] = {}

    def complete(self, transitions: Sequence[Transition]) -> list[tuple[int, Transition]]:
        """Apply all plain completions in a few statements; returns the other transitions."""
        others: list[tuple[int, Transition]] = []
        by_keep: dict[float, list[int]] = {}
        results: list[tuple[int, bytes]] = []
        processing = self._writer.list_of_state(_PROCESSING)
        rows, record_completion = self._rows, self.record_completion
        for index, transition in enumerate(transitions):
            row = rows.get(transition.id)
            if (
                row is None
                or transition.act is not _COMPLETE
                or row[LIST] != processing
                or row[TOKEN] != transition.token
            ):
                others.append((index, transition))
                continue
            num = row[0]
            by_keep.setdefault(transition.keep, []).append(num)
            if transition.result is not None:
                results.append((num, transition.result))
            record_completion(
                index, transition, num, row[KIND], row[GROUP], row[ATTEMPTS], row[TOKEN],
                row[WORKER],
            )  # fmt: skip
        self._finish_many(by_keep, results)
        return others

    def _finish_many(
        self, by_keep: dict[float, list[int]], results: list[tuple[int, bytes]]
    ) -> None:
        writer, now = self._writer, self.now
        completed = writer.list_of_state(State.COMPLETED)
        for keep, nums in by_keep.items():
            values = (completed, now + keep, now, ACT_CODES[_COMPLETE], int_array(nums))
            writer.tx.execute(sql("complete_jobs"), values)
            writer.change_counts(writer.list_of_state(_PROCESSING), completed, len(nums))
        if results:
            writer.tx.executemany(sql("add_result"), results)

    def find(self, id: str) -> JobRow | None:
        if id not in self._jobs:
            row = self._rows.get(id)
            self._jobs[id] = None if row is None else JobRow(row)
        return self._jobs[id]

    def payload_of(self, job: JobRow) -> bytes:
        [(payload,)] = self._writer.tx.execute(sql("payload_of"), (job.num,)).fetchall()
        return bytes(payload)

    def result_and_history(self, job: JobRow) -> tuple[bytes | None, Sequence[Failure]]:
        execute = self._writer.tx.execute
        rows = execute(sql("result_of"), (job.num,)).fetchall()
        return rows[0][0] if rows else None, history_of(execute, job.num)

    def options_of(self, jobs: Sequence[int]) -> Mapping[int, Options]:
        rows = self._writer.tx.execute(sql("options_of"), (int_array(jobs),)).fetchall()
        return {num: decode_options(data) for num, data in rows}

    def write(self, job: JobRow, transition: Transition, change: AppliedChange) -> None:
        writer, execute = self._writer, self._writer.tx.execute
        if change.attempt is not None:
            values = (job.num, encode_failure(change.attempt))
            n = execute(sql("add_attempt"), values).fetchall()[0][0]
            if n > HISTORY_LIMIT:
                execute(sql("drop_oldest_attempts"), (job.num, n - HISTORY_LIMIT))
        if transition.edit is not None:
            if transition.edit.payload is not None:
                execute(sql("set_payload"), (transition.edit.payload, job.num))
            if transition.edit.priority is not None:
                execute(sql("set_priority"), (job.priority, job.num))
        if transition.result is not None:
            execute(sql("add_result"), (job.num, transition.result))
        job.change_list(writer, change.source)
        self._changed[job.num] = job

    def write_key(self, key: tuple[str, ...], job: JobRow) -> None:
        put_key(self._writer.tx, self.queue.tenant, key, self.payload_of(job))

    def move(self, job: JobRow, target: QueueKey) -> bool:
        writer = self._writer
        target_writer = find_queue(writer.tx, target)
        if target_writer is not None and not self._drop_expired_duplicate(target_writer, job.id):
            return False
        if target_writer is None or target_writer.dropped:
            target_writer = ensure_queue(writer.tx, target)
        writer.change_counts(job.list_id, None)
        writer.tx.execute(sql("set_queue"), (target_writer.num, job.num))
        job.list_id = (
            target_writer.ready_list(job.kind)
            if job.list_id > 0
            else target_writer.list_of_state(job.state)
        )
        target_writer.change_counts(None, job.list_id)
        save_rows(target_writer, [job])
        # The tokens of a job must grow, whichever queue issues them.
        target_writer.raise_token(job.token)
        target_writer.write_counts()
        self._changed.pop(job.num, None)
        self._jobs[job.id] = None
        return True

    def _drop_expired_duplicate(self, target_writer: QueueWriter, id: str) -> bool:
        """Drop the target's job of this id if its retention has ended; False if it has not."""
        for row in target_writer.tx.execute(sql("job_by_id"), (target_writer.num, id)).fetchall():
            duplicate = JobRow(row)
            if not duplicate.past_retention(self.now):
                return False
            target_writer.drop_jobs([(duplicate.num, duplicate.list_id)])
        return True

    def finish(self) -> None:
        """Write the changed jobs, the journal entries and the counts."""
        writer = self._writer
        save_rows(writer, list(self._changed.values()))
        writer.write_journal(self.now, self.entries())
        writer.write_counts()
        for target, entry in self.moved_in:
            target_writer = ensure_queue(writer.tx, target)
            target_writer.write_journal(self.now, [entry])
            target_writer.write_counts()
        writer.free_groups(self.freed_groups)
