"""Where a job stands, before and after a transition."""

from __future__ import annotations

from ackline.job import State
from ackline.stores.shared.apply import JobState
from ackline.stores.shared.records import ACT_CODE, SETTLING
from ackline.stores.sqlite.lines import Lines, state_in
from ackline.stores.sqlite.queries import sql
from ackline.stores.sqlite.rows import Row

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
