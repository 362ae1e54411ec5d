"""Makes a few large batches of many small ones.

It can be interrupted anywhere. The merged batch is written aside first; then a note says which
batches it replaces, and in which tables that is done; then they are replaced, and only after that
is what was written aside removed. A run that finds such a note finishes it. Nothing is concluded
from a folder that is missing.

Reports and audits see each row once at any moment, because they follow the log: it names the old
batches until all is written aside; then the merged one, and where it is aside; and at last only
the merged one, in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
from pyspark.sql import DataFrame, SparkSession

from ackline.core.ids import new_id
from ackline.spark.errors import LakeDamaged
from ackline.spark.lake.batch_log import Batch
from ackline.spark.lake.counts import require_whole
from ackline.spark.lake.lake import Lake
from ackline.spark.lake.layout import (
    COMPACTING,
    COMPACTION,
    ERRORS,
    EVENTS,
    JOBS,
    KEPT_BY_BATCH,
    SUMMARIES,
    TRAFFIC,
    WORKERS,
    Table,
    batch_folder,
)
from ackline.spark.lake.micro_batch import pass_nothing
from ackline.spark.lake.writing import write_table
from ackline.spark.transforms import error_groups, traffic, workers

TOGETHER = 16
"""This many batches become one, and this many of those become one again."""

_ADDED_UP: dict[Table, Callable[[DataFrame], DataFrame]] = {
    EVENTS: lambda rows: rows.coalesce(1),
    JOBS: lambda rows: rows.coalesce(1),
    TRAFFIC: lambda rows: traffic.merge(rows, ("day", "hour", *traffic.GROUP_KEY)).coalesce(1),
    WORKERS: lambda rows: workers.merge(rows, ("day", *workers.GROUP_KEY)).coalesce(1),
    ERRORS: lambda rows: error_groups.merge(rows, ("day", *error_groups.GROUP_KEY)).coalesce(1),
}


SPAN = 86_400.0
"""Seconds from the first to the last of those batches, at most: they expire together."""


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """The last of the batches takes the place of all of them."""

    batches: list[int]
    result: Batch
    rows: dict[str, int]
    """How many were written aside, by table."""
    done: list[str] = []
    """Tables in which the batches are replaced already."""
    aside: str
    """The run's own folder below `COMPACTING`, with what was written aside."""

    @property
    def written(self) -> tuple[str, ...]:
        """The folder of what was written aside."""
        return (COMPACTING, self.aside)


class Compaction:
    """Keeps the number of a lake's files small. Must not run while a batch does."""

    def __init__(
        self, spark: SparkSession, lake: Lake, passing: Callable[[str], None] = pass_nothing
    ) -> None:
        self._spark = spark
        self._lake = lake
        self._pass = passing
        self._aside = (COMPACTING, new_id())

    def finish(self) -> None:
        """Finish what an earlier run has begun, if it was interrupted."""
        note: Note | None = self._lake.folder.read_json(Note, COMPACTION)
        if note is not None and self._is_done(note):
            self._forget(note)
        elif note is not None:
            self._take_place(note)
        self._lake.folder.remove(COMPACTING)

    def compact(self) -> int:
        """Put batches together; returns how many fewer there are."""
        self.finish()
        gone = 0
        while group := self._next():
            self._put_together(group)
            self._lake.folder.remove(COMPACTING)
            gone += len(group) - 1
        return gone

    def _next(self) -> list[Batch]:
        """The next `TOGETHER` published batches in a row that have one level and expire together.

        The lake's last batch is never among them: it may be replayed.
        """
        published = self._lake.require().published
        batches = [batch for batch in self._lake.log.batches[:-1] if batch.number <= published]
        for level in range(max((batch.level for batch in batches), default=0) + 1):
            for start in range(len(batches) - TOGETHER + 1):
                group = batches[start : start + TOGETHER]
                if {batch.level for batch in group} == {level} and _belong_together(group):
                    return group
        return []

    def _put_together(self, batches: list[Batch]) -> None:
        last, rows = batches[-1], {}
        for name in _kept(last):
            rows[_path(name)] = self._write_aside(name, batches)
            self._pass("aside")
        result = msgspec.structs.replace(
            last,
            events=sum(batch.events for batch in batches),
            ended=sum(batch.ended for batch in batches),
            days=sorted({day for batch in batches for day in batch.days}),
            last_at=max(batch.last_at for batch in batches),
            level=last.level + 1,
            first=batches[0].first_number,
            since=min(batch.first_ended_at for batch in batches),
            summary_rows={name[-1]: rows[_path(name)] for name in SUMMARIES},
            gaps=[],
            aside="",
        )
        self._require_all(result, rows)
        numbers = [batch.number for batch in batches]
        note = Note(batches=numbers, result=result, rows=rows, aside=self._aside[-1])
        self._lake.folder.write_json(note, COMPACTION)
        self._pass("noted")
        self._take_place(note)

    def _write_aside(self, name: Table, batches: list[Batch]) -> int:
        places = require_whole(self._lake, name, batches)
        paths = [self._lake.folder.at(*place) for place in places]
        rows = _ADDED_UP[name](self._spark.read.parquet(*paths))
        write_table(rows, self._lake.folder.at(*self._aside, *name))
        return self._lake.folder.count_rows(*self._aside, *name)

    def _require_all(self, result: Batch, rows: Mapping[str, int]) -> None:
        """Refuse a merged batch without all the rows that the batches are known to have brought."""
        for name, expected in ((EVENTS, result.events), (JOBS, result.ended)):
            found = rows.get(_path(name), expected)
            if found != expected:
                raise LakeDamaged(
                    f"{self._lake.folder.at(*name)} has {found:,} rows of batches "
                    f"{result.first_number} to {result.number}, which brought {expected:,}: "
                    "nothing was changed. Restore the missing files, or make another lake"
                )

    def _take_place(self, note: Note) -> None:
        for path in note.rows:
            self._require_aside(path, note)
        self._lake.log.add(msgspec.structs.replace(note.result, aside=_path(note.written)))
        self._pass("switched")
        for name in KEPT_BY_BATCH:
            if _path(name) not in note.done:
                self._replace(name, note)
                note = msgspec.structs.replace(note, done=[*note.done, _path(name)])
                self._lake.folder.write_json(note, COMPACTION)
        self._lake.log.add(note.result)
        self._pass("replaced")
        self._forget(note)

    def _is_done(self, note: Note) -> bool:
        """Whether the merged batch is in its place in all tables, as the log says only then."""
        result = note.result
        return any(
            batch.level >= result.level
            and batch.first_number <= result.first_number
            and not batch.aside
            for batch in self._lake.log.batches
            if batch.number >= result.number
        )

    def _forget(self, note: Note) -> None:
        for number in note.batches:
            if number != note.result.number:
                self._lake.log.forget(number)
        self._lake.folder.remove(COMPACTION)
        self._pass("done")

    def _replace(self, name: Table, note: Note) -> None:
        folder, result = self._lake.folder, note.result.number
        # If it is not replaced, it was too old, and a killed run may have left some of it.
        taken = _path(name) in note.rows
        for number in note.batches:
            if number != result or not taken:
                folder.remove(*batch_folder(name, number))
                self._pass("removed")
        if taken:
            folder.replace((*note.written, *name), batch_folder(name, result))
            self._pass("placed")

    def _require_aside(self, path: str, note: Note) -> None:
        """Before anything is changed, all that was written aside must be there."""
        aside, expected = (*note.written, *path.split("/")), note.rows[path]
        exists = self._lake.folder.exists(*aside)
        found = self._lake.folder.count_rows(*aside) if exists else 0
        if not exists or found != expected:
            # Another run may have just finished the same note: then this check fails instead.
            self._lake.folder.check()
            raise LakeDamaged(
                f"{self._lake.folder.at(*aside)} has {found:,} rows, and {expected:,} were "
                "written: someone else has changed the lake. Nothing was removed"
            )


def _kept(batch: Batch) -> tuple[tuple[str, ...], ...]:
    return SUMMARIES if batch.dropped else KEPT_BY_BATCH


def _belong_together(batches: list[Batch]) -> bool:
    """Whether they expire at about the same time, and either all or none were dropped."""
    span = max(batch.last_at for batch in batches) - min(batch.first_ended_at for batch in batches)
    return span <= SPAN and len({batch.dropped for batch in batches}) == 1


def _path(name: Table) -> str:
    return "/".join(name)
