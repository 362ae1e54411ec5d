"""The lake's tables as Delta tables in another folder, for programs that read those.

The rows of a batch are appended in one commit together with the number of the batch, so they are
there once, however often it is repeated. Gold is small, and is written as a whole. Each commit is
made on top of the version in which that number was looked up: if another run has committed since,
Delta refuses it.
"""

from __future__ import annotations

import datetime
import zlib
from collections.abc import Mapping
from typing import Any

import msgspec
import pyarrow

from ackline.core.errors import ConfigError, MissingExtra
from ackline.spark.lake.batch_log import Batch
from ackline.spark.lake.folder import Folder
from ackline.spark.lake.gold import BY_DAY, OF_ALL, SLO
from ackline.spark.lake.lake import Lake
from ackline.spark.lake.layout import EVENTS, GOLD, JOBS, Table, batch_folder
from ackline.spark.paths import as_uri, paths_overlap

BY_BATCH = (EVENTS, JOBS)

BATCH, CONTENTS, PUBLISHED = "ackline", "ackline contents", "ackline gold"
"""What each commit records: the number of its batch and a digest of it, or a digest of its gold."""

OWNER = "ackline.json"

ANOTHER_FOLDER = "export to another folder with --delta PATH, or end it with --delta none"

TIDY_EVERY = 16
"""Commits of a table after which its small files are put together, and old ones dropped."""


def require_delta() -> Any:
    """The package that writes Delta tables, or what to install."""
    try:
        import deltalake
    except ModuleNotFoundError:
        raise MissingExtra("a lake with Delta tables", "delta") from None
    return deltalake


class Owner(msgspec.Struct, frozen=True):
    """The owner of the tables in a folder."""

    lake: str


class DeltaTables:
    """Delta tables with all rows that were added to the tables of a lake.

    Old rows are deleted from them one by one, but from the lake only by whole batches, so later.
    """

    def __init__(self, lake: Lake, path: str) -> None:
        self._delta = require_delta()
        self._lake = lake
        self._folder = Folder(path, lake.folder.check)
        self.path = self._folder.path

    def open(self) -> None:
        """Take them for this lake if nobody owns them, and check that they can be continued."""
        self._require_beside()
        self._require_own()
        for name in BY_BATCH:
            self._require_next(name)
        self._folder.create_json(Owner(self._lake.require().id), OWNER)
        # Another lake may have done so at the same time.
        self._require_own()

    def bring_up_to_date(self) -> None:
        """Add what the lake has and they lack. Must be done before batches are put together."""
        self._require_own()
        for name in BY_BATCH:
            self._append(name)
        for table in (*BY_DAY, *OF_ALL):
            self._replace((GOLD, table))

    def drop(self, before: float) -> None:
        """Delete the events and lives that are older; their files go when they are tidied."""
        at = datetime.datetime.fromtimestamp(before, datetime.UTC).isoformat()
        for name, column in ((EVENTS, "at"), (JOBS, "ended_at")):
            if (table := self._table(name)) is not None:
                old = table.version()
                self._lake.folder.check()
                table.delete(f"{column} < '{at}'")
                self._tidy(name, old)

    def _require_beside(self) -> None:
        """Refuse a path that overlaps the lake: they would mix, and Delta removes unknown files."""
        if paths_overlap(self.path, self._lake.folder.path):
            raise ConfigError(
                f"{self.path} and the lake {self._lake.folder.path} are one within the other, so "
                f"their tables would mix: {ANOTHER_FOLDER}"
            )

    def _require_own(self) -> None:
        mark = self._lake.require()
        owner: Owner | None = self._folder.read_json(Owner, OWNER)
        # An earlier version did not record the owner.
        unknown = owner is None and mark.delta != self.path and self._has_any()
        if unknown or (owner is not None and owner.lake != mark.id):
            raise ConfigError(
                f"{self.path} has the tables of another lake, not of {self._lake.folder.path}: "
                f"{ANOTHER_FOLDER}"
            )

    def _has_any(self) -> bool:
        return any(self._table(name) is not None for name in BY_BATCH)

    def _require_next(self, name: Table) -> None:
        """The batches that a table lacks must be whole, and come after those that it has."""
        done = self._version(name, BATCH)
        for batch in self._lake.log.batches:
            if batch.first_number <= done < batch.number and self._lake.has(name, batch.number):
                raise ConfigError(
                    f"{self._at(name)} ends with batch {done}, and the lake has put later ones "
                    f"together with earlier ones since: {ANOTHER_FOLDER}"
                )
        self._require_same(name, done)

    def _require_same(self, name: Table, done: int) -> None:
        """Refuse a lake that was restored from a backup and has other batches of these numbers."""
        last, known = self._lake.log.batch(done), self._version(name, CONTENTS)
        other = last is not None and not last.level and known not in (-1, _contents(last))
        ends = max((batch.number for batch in self._lake.log.batches), default=-1)
        if other or done > ends:
            raise ConfigError(
                f"{self._at(name)} has another batch {done} than the lake "
                f"{self._lake.folder.path}, which was restored since: {ANOTHER_FOLDER}"
            )

    def _append(self, name: Table) -> None:
        self._require_next(name)
        table = self._table(name)
        done = _recorded(table, BATCH)
        for batch in self._lake.log.batches:
            if batch.number > done and self._lake.has(name, batch.number):
                record = {BATCH: batch.number, CONTENTS: _contents(batch)}
                self._write(name, table, batch_folder(name, batch.number), record)
                table = self._table(name)
                done = _recorded(table, BATCH)

    def _replace(self, name: Table) -> None:
        mark, table = self._lake.require(), self._table(name)
        # Other objectives change all days of one table.
        judged_by = sorted(mark.published_with.items()) if name == (GOLD, SLO) else []
        record = {PUBLISHED: _digest((mark.published, judged_by))}
        if mark.published >= 0 and _recorded(table, PUBLISHED) != record[PUBLISHED]:
            self._write(name, table, name, record)

    def _write(
        self,
        name: Table,
        table: Any,
        source: tuple[str, ...],
        record: Mapping[str, int],
    ) -> None:
        """Commit rows on top of the version of a table that was looked at, or make the table."""
        delta, old = self._delta, -1 if table is None else table.version()
        transactions = [delta.Transaction(by, number) for by, number in record.items()]
        rows = rows_with_all_columns(self._lake.folder, source)
        self._lake.folder.check()
        try:
            delta.write_deltalake(
                self._at(name) if table is None else table,
                rows,
                **({"mode": "error"} if table is None else _how(name)),
                commit_properties=delta.CommitProperties(app_transactions=transactions),
            )
        except delta.exceptions.DeltaError:
            # If another run has committed since then, it has the lake.
            self._lake.folder.check()
            raise
        self._tidy(name, old)

    def _tidy(self, name: Table, old: int) -> None:
        """Tidy up every `TIDY_EVERY` commits of any sort: some runs make one, others several."""
        table = self._delta.DeltaTable(self._at(name))
        if (old + 1) // TIDY_EVERY < (table.version() + 1) // TIDY_EVERY:
            self._lake.folder.check()
            table.optimize.compact()
            table.vacuum(dry_run=False)

    def _version(self, name: Table, by: str) -> int:
        return _recorded(self._table(name), by)

    def _table(self, name: Table) -> Any:
        """None if it does not exist yet."""
        delta = self._delta.DeltaTable
        return delta(self._at(name)) if delta.is_deltatable(self._at(name)) else None

    def _at(self, name: Table) -> str:
        return as_uri("/".join((self.path, *name)))


def rows_with_all_columns(folder: Folder, segments: tuple[str, ...]) -> pyarrow.RecordBatchReader:
    """The rows of a table; a file of an earlier version may lack columns that others have."""
    table = folder.dataset(*segments)
    each = [file.physical_schema for file in table.get_fragments()]
    columns = pyarrow.unify_schemas(each or [table.schema], promote_options="permissive")
    lacking = {name for name in columns.names if any(name not in one.names for one in each)}
    fields = [one.with_nullable(one.nullable or one.name in lacking) for one in columns]
    return table.replace_schema(pyarrow.schema(fields)).scanner().to_reader()


def _how(name: Table) -> dict[str, str]:
    """How rows are added to a table; the columns of gold may change with each version."""
    mode = "append" if name in BY_BATCH else "overwrite"
    return {"mode": mode, "schema_mode": "merge" if mode == "append" else "overwrite"}


def _recorded(table: Any, by: str) -> int:
    """The number that a table has recorded last under a name; -1 if it has none."""
    found = None if table is None else table.transaction_version(by)
    return -1 if found is None else int(found)


def _contents(batch: Batch) -> int:
    return _digest((batch.events, batch.ended, batch.last_at))


def _digest(value: Any) -> int:
    """A number that differs if the value does."""
    return zlib.crc32(msgspec.json.encode(value))
