"""The log of a lake: what each batch brought, one file for each."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec

from ackline.spark.journal.gaps import Gap
from ackline.spark.lake.folder import Folder, Stamp
from ackline.spark.lake.layout import LOG

AT_ONCE = 8
"""Files that are read at the same time: each is a round trip to an object store."""


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """What one batch brought; written when all of it is in the lake."""

    number: int
    events: int
    ended: int
    days: list[datetime.date]
    """Days on which something happened: the gold tables are rebuilt for these."""
    last_at: float
    level: int = 0
    """How often it was put together with others."""
    first: int | None = None
    """The number of the first batch that it was put together from; None if it was not."""
    since: float | None = None
    """The earliest `last_at` of those."""
    going_on: int = 0
    """Rows about lives that went on after it, one for each."""
    summary_rows: Mapping[str, int] = msgspec.field(default_factory=dict, name="parts")
    """Rows of the summaries that gold is made of."""
    dropped: bool = False
    """Whether its events and lives were dropped because they were too old."""
    gaps: list[Gap] = []
    """All dropped events that were skipped up to its end. Only those of the last batch are needed:
    one that was put together from others lists none."""
    aside: str = ""
    """The folder that has its tables until all of them are in their places; empty after that."""

    @property
    def first_number(self) -> int:
        """The number of the first batch that it consists of."""
        return self.number if self.first is None else self.first

    @property
    def first_ended_at(self) -> float:
        """When the first batch that it consists of ended."""
        return self.last_at if self.since is None else self.since


class BatchLog:
    """The complete batches of a lake. A batch is part of it from the moment that it is listed."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._read: dict[str, tuple[Stamp, Batch]] = {}
        """The files that were read: each is read again only when it has changed."""

    @property
    def batches(self) -> list[Batch]:
        """All complete batches, in order."""
        stamps = {name: at for name, at in self.stamps.items() if name.endswith(".json")}
        known = {name: self._read[name] for name in stamps if self._is_known(name, stamps[name])}
        with ThreadPoolExecutor(AT_ONCE) as pool:
            read = pool.map(self._read_file, (name for name in stamps if name not in known))
            known |= {name: (stamps[name], batch) for name, batch in read if batch is not None}
        self._read = known
        return without_merged([known[name][1] for name in stamps if name in known])

    @property
    def stamps(self) -> dict[str, Stamp]:
        """The files of the log: they differ if a run has done anything since."""
        return self._folder.stamps(LOG)

    def batch(self, number: int) -> Batch | None:
        """A complete batch; None if it is not complete, or is part of another."""
        found: Batch | None = self._folder.read_json(Batch, LOG, _name(number))
        return found

    def add(self, batch: Batch) -> None:
        """Record that a batch is complete, or what has become of it."""
        self._read.pop(_name(batch.number), None)
        self._folder.write_json(batch, LOG, _name(batch.number))

    def forget(self, number: int) -> None:
        """Remove a batch: it is part of another now, or was dropped."""
        self._folder.remove(LOG, _name(number))

    def _is_known(self, name: str, stamp: Stamp) -> bool:
        return name in self._read and self._read[name][0] == stamp

    def _read_file(self, name: str) -> tuple[str, Batch | None]:
        return name, self._folder.read_json(Batch, LOG, name)


def without_merged(batches: Sequence[Batch]) -> list[Batch]:
    """The batches in order, without those that are part of a later one and not forgotten yet."""
    found: list[Batch] = []
    for batch in reversed(batches):
        if not found or found[-1].first_number > batch.number:
            found.append(batch)
    return found[::-1]


def _name(number: int) -> str:
    return f"{number:012d}.json"
