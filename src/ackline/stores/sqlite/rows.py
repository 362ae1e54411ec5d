"""Rows to records, and several lines of jobs read as one."""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import apsw

from ackline.core.job import Failure, Record, State
from ackline.stores.shared.record_encoding import (
    STATE_CODES,
    STATES_BY_CODE,
    decode_failure,
    decode_options,
    make_record,
)
from ackline.stores.sqlite.io.connection import Execute
from ackline.stores.sqlite.sql import sql

Row = tuple[Any, ...]
P = TypeVar("P", bound=tuple[float, ...])

READY, PARKED, JOURNAL = STATE_CODES[State.QUEUED], 7, 8
"""The codes of lines, besides those of the states."""

BATCH_COUNTER = 0
"""The slot that counts the batches that were ever written to the journal."""

_PAYLOAD, _OPTIONS, _TOKEN, _PROGRESS, _RESULT = 3, 5, 10, 15, 16
"""Columns of a row of `look_up`."""


def list_of_state(queue: int, state: State) -> int:
    """The one line of a state (not of `queued`, which has several)."""
    return -(queue * 16 + STATE_CODES[state])


def state_of_list(slot: int) -> State:
    """The state of the jobs in a line."""
    return STATES_BY_CODE[-slot & 15] if slot < 0 else State.QUEUED


def int_array(values: Iterable[int]) -> object:
    """Job numbers as one parameter of a statement."""
    return apsw.carray(array("q", values))


def rows_by_ids(execute: Execute, many: str, one: str, queue: int, ids: Sequence[str]) -> list[Row]:
    """The rows that a statement for many ids, or its twin for one id, finds for these ids."""
    return list(each_row(execute, many, one, queue, ids))


def each_row(
    execute: Execute, many: str, one: str, queue: int, ids: Sequence[str]
) -> Iterator[Row]:
    """The same, one row after the other, in the order of the ids."""
    if len(ids) > 1:
        try:
            return iter(execute(sql(many), (queue, apsw.carray(tuple(ids)))))
        except ValueError:
            pass  # an id with a NUL character, which carray cannot carry
    return (row for id in ids for row in execute(sql(one), (queue, id)).fetchall())


def history_of(execute: Execute, job: int) -> tuple[Failure, ...]:
    """A job's attempts that ended without completing."""
    return tuple(decode_failure(data) for (data,) in execute(sql("attempts_of"), (job,)))


def histories_of(execute: Execute, jobs: Iterable[int]) -> dict[int, tuple[Failure, ...]]:
    """The same of many jobs, in one statement; jobs without such attempts are left out."""
    histories: dict[int, tuple[Failure, ...]] = {}
    for job, data in execute(sql("attempts_of_many"), (int_array(jobs),)):
        histories[job] = (*histories.get(job, ()), decode_failure(data))
    return histories


def records_of(execute: Execute, rows: Sequence[Row]) -> list[Record]:
    """Jobs with their history, from rows of `look_up` or a similar statement."""
    histories = histories_of(execute, (row[0] for row in rows)) if rows else {}
    return [record_of(row, histories.get(row[0], ())) for row in rows]


def size_of(execute: Execute, row: Row) -> int:
    """How many bytes a job takes, from a row of `look_up` or a similar statement."""
    sizes = (len(row[at]) for at in (_PAYLOAD, _OPTIONS, _PROGRESS, _RESULT) if row[at] is not None)
    ended = execute(sql("attempt_bytes"), (row[0],)).fetchall()[0][0] if row[_TOKEN] else 0
    return sum(sizes) + int(ended)


def without_data(row: Row) -> Row:
    """A row of `look_up` or a similar statement without what may be large."""
    return (*row[:_PAYLOAD], b"", *row[_PAYLOAD + 1 : _PROGRESS], None, None)


def record_of(row: Row, history: tuple[Failure, ...] = ()) -> Record:
    """A job as others see it, from a row of `look_up` or a similar statement."""
    (
        _, id, kind, payload, priority, options, created, slot, at,
        attempts, token, worker, started, finished, cancel, progress, result,
    ) = row  # fmt: skip
    return make_record(
        id, kind, state_of_list(slot), payload, priority, decode_options(options), attempts,
        created, token, worker, started, at, finished, cancel != 0, progress, result, history,
    )  # fmt: skip


# --- several lines ---


def merge_lists(
    heads: Sequence[tuple[P, int]],
    read: Callable[[int], Iterator[Row]],
    place: Callable[[Row], P],
) -> Iterator[Row]:
    """The rows of several lines in one order, given the first place and the slot of each line.

    A line is read only when it is next: there may be one for each of thousands of kinds, and
    SQLite gets slow with many open statements.
    """
    if len(heads) == 1:
        return read(heads[0][1])
    return _merge(heads, read, place)


def _merge(
    heads: Sequence[tuple[P, int]],
    read: Callable[[int], Iterator[Row]],
    place: Callable[[Row], P],
) -> Iterator[Row]:
    nothing: Iterator[Row] = iter(())
    lines: list[tuple[P, int, Row | None, Iterator[Row]]]
    lines = [(head, slot, None, nothing) for head, slot in heads]
    heapq.heapify(lines)
    while lines:
        _, slot, row, rows = lines[0]
        if row is None:
            rows = read(slot)
        else:
            yield row
        row = next(rows, None)
        if row is None:
            heapq.heappop(lines)
        else:
            heapq.heapreplace(lines, (place(row), slot, row, rows))
