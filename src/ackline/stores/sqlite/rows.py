"""Turn rows into records, and merge several job lists into one."""

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
"""Codes of job lists, in addition to those of the states (see `migrations/0001_start.sql`)."""

BATCH_COUNTER = 0
"""The list that counts the journal batches ever written."""

_PAYLOAD, _OPTIONS, _TOKEN, _PROGRESS, _RESULT = 3, 5, 10, 15, 16
"""Columns of a row of `read_job`."""


def list_of_state(queue: int, state: State) -> int:
    """The list of a state (not of `queued`, which has several)."""
    return -(queue * 16 + STATE_CODES[state])


def state_of_list(list_id: int) -> State:
    """The state of the jobs in a list."""
    return STATES_BY_CODE[-list_id & 15] if list_id < 0 else State.QUEUED


def int_array(values: Iterable[int]) -> object:
    """Job numbers as a single statement parameter."""
    return apsw.carray(array("q", values))


def rows_by_ids(execute: Execute, many: str, one: str, queue: int, ids: Sequence[str]) -> list[Row]:
    """All rows for these ids, from a statement for many ids or its variant for one id."""
    return list(iter_rows(execute, many, one, queue, ids))


def iter_rows(
    execute: Execute, many: str, one: str, queue: int, ids: Sequence[str]
) -> Iterator[Row]:
    """Iterate over the rows for these ids, in the order of the ids."""
    if len(ids) > 1:
        try:
            return iter(execute(sql(many), (queue, apsw.carray(tuple(ids)))))
        except ValueError:
            pass  # an id has a NUL character, which carray cannot hold
    return (row for id in ids for row in execute(sql(one), (queue, id)).fetchall())


def history_of(execute: Execute, job: int) -> tuple[Failure, ...]:
    """The attempts of a job that ended without completing."""
    return tuple(decode_failure(data) for (data,) in execute(sql("attempts_of"), (job,)))


def histories_of(execute: Execute, jobs: Iterable[int]) -> dict[int, tuple[Failure, ...]]:
    """The attempts of many jobs, in one statement; jobs without any are left out."""
    histories: dict[int, tuple[Failure, ...]] = {}
    for job, data in execute(sql("attempts_of_many"), (int_array(jobs),)):
        histories[job] = (*histories.get(job, ()), decode_failure(data))
    return histories


def records_of(execute: Execute, rows: Sequence[Row]) -> list[Record]:
    """The records of jobs with their history, from rows of `read_job` or a similar statement."""
    histories = histories_of(execute, (row[0] for row in rows)) if rows else {}
    return [record_of(row, histories.get(row[0], ())) for row in rows]


def size_of(execute: Execute, row: Row) -> int:
    """The size of a job in bytes, from a row of `read_job` or a similar statement."""
    sizes = (len(row[at]) for at in (_PAYLOAD, _OPTIONS, _PROGRESS, _RESULT) if row[at] is not None)
    history = execute(sql("attempt_bytes"), (row[0],)).fetchall()[0][0] if row[_TOKEN] else 0
    return sum(sizes) + int(history)


def without_data(row: Row) -> Row:
    """A row of `read_job` or a similar statement, without payload, progress and result."""
    return (*row[:_PAYLOAD], b"", *row[_PAYLOAD + 1 : _PROGRESS], None, None)


def record_of(row: Row, history: tuple[Failure, ...] = ()) -> Record:
    """The record of a job, from a row of `read_job` or a similar statement."""
    (
        _, id, kind, payload, priority, options, created, list_id, at,
        attempts, token, worker, started, finished, cancel, progress, result,
    ) = row  # fmt: skip
    return make_record(
        id, kind, state_of_list(list_id), payload, priority, decode_options(options), attempts,
        created, token, worker, started, at, finished, cancel != 0, progress, result, history,
    )  # fmt: skip


# --- merging lists ---


def merge_lists(
    heads: Sequence[tuple[P, int]],
    read: Callable[[int], Iterator[Row]],
    sort_key: Callable[[Row], P],
) -> Iterator[Row]:
    """Merge the rows of several lists, given the sort key of the first row and the number of each.

    A list is opened only when its turn comes: there may be thousands of kinds with a list each, and
    many open statements slow SQLite down.
    """
    if len(heads) == 1:
        return read(heads[0][1])
    return _merge(heads, read, sort_key)


def _merge(
    heads: Sequence[tuple[P, int]],
    read: Callable[[int], Iterator[Row]],
    sort_key: Callable[[Row], P],
) -> Iterator[Row]:
    nothing: Iterator[Row] = iter(())
    lists: list[tuple[P, int, Row | None, Iterator[Row]]]
    lists = [(head, list_id, None, nothing) for head, list_id in heads]
    heapq.heapify(lists)
    while lists:
        _, list_id, row, rows = lists[0]
        if row is None:
            rows = read(list_id)
        else:
            yield row
        row = next(rows, None)
        if row is None:
            heapq.heappop(lists)
        else:
            heapq.heapreplace(lists, (sort_key(row), list_id, row, rows))
