"""Where a job stands, before and after a transition."""

from __future__ import annotations

from ackline.events import Act
from ackline.job import State
from ackline.stores.shared.records import ACT_CODE, SETTLING
from ackline.stores.sqlite.lines import Lines, state_in
from ackline.stores.sqlite.queries import sql
from ackline.stores.sqlite.rows import Row

ID, KIND, GROUP, SLOT, AT, ATTEMPTS, TOKEN, WORKER, CANCEL = 1, 2, 3, 5, 6, 8, 9, 10, 14
"""Columns of a row of `standings`."""


class Standing:
    """A job within a batch of transitions; its changes are written at the end of the batch."""

    __slots__ = (
        "act", "at", "attempts", "cancel", "finished", "group", "id", "kind", "num", "priority",
        "progress", "rank", "slot", "started", "state", "token", "worker",
    )  # fmt: skip

    def __init__(self, row: Row) -> None:
        (
            self.num, self.id, self.kind, self.group, self.priority, self.slot, self.at,
            self.rank, self.attempts, self.token, self.worker, self.started, self.finished,
            act, self.cancel, self.progress,
        ) = row  # fmt: skip
        self.act: Act | None = None if act is None else SETTLING[act]
        self.state: State = state_in(self.slot)

    def over(self, now: float) -> bool:
        """Whether its retention has ended, so that it counts as gone."""
        return self.state.terminal and self.at <= now

    def stand(self, lines: Lines, state: State, at: float) -> None:
        """Put it in the line of a state; in the same state, it keeps its line."""
        queued = state is State.QUEUED
        if state is self.state:
            slot = self.slot
        else:
            slot = lines.ready(self.kind) if queued else lines.slot(state)
        lines.shift(self.slot, slot)
        self.state, self.slot, self.at = state, slot, at
        if queued:
            self.rank = at

    def row(self) -> Row:
        """What `set_standing` writes."""
        act = None if self.act is None else ACT_CODE[self.act]
        return (
            self.num, self.slot, self.at, self.rank, self.attempts, self.finished, act,
            self.cancel, self.progress,
        )  # fmt: skip


def save(lines: Lines, changed: list[Standing]) -> None:
    """Write where these jobs stand now."""
    if changed:
        lines.tx.executemany(sql("set_standing"), [standing.row() for standing in changed])
