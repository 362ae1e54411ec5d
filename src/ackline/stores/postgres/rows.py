"""Rows to records."""

from __future__ import annotations

from ackline.job import Failure, Record, State
from ackline.stores.postgres.codes import name_of
from ackline.stores.postgres.exchange import Row
from ackline.stores.shared.records import STATES, decode_options, make_record

_PAYLOAD, _PROGRESS = 3, 15
"""Columns of a row of `look_up`."""


def leased_record(row: Row) -> Record:
    """A leased job, from a row of `lapsed` or `held`."""
    (
        _, id, kind, payload, priority, options, created, deadline, attempts, token, worker,
        started, asked, progress,
    ) = row  # fmt: skip
    return make_record(
        id.decode(), name_of(kind), State.PROCESSING, payload, priority, decode_options(options),
        attempts, created, token, name_of(worker), started, deadline, None, asked, progress,
    )  # fmt: skip


def without_data(row: Row) -> Row:
    """A row of `look_up` or a similar statement without what may be large."""
    return (*row[:_PAYLOAD], b"", *row[_PAYLOAD + 1 : _PROGRESS], None, None, 0)


def record_of(row: Row, history: tuple[Failure, ...] = ()) -> Record:
    """Any job, from a row of `look_up` or a similar statement."""
    (
        _, id, kind, payload, priority, options, created, code, at, attempts, token, worker,
        started, finished, asked, progress, result, _,
    ) = row  # fmt: skip
    return make_record(
        id.decode(), name_of(kind), STATES[code], payload, priority, decode_options(options),
        attempts or 0, created, token or 0, name_of(worker) if worker else "", started, at,
        finished, bool(asked), progress, result, history,
    )  # fmt: skip
