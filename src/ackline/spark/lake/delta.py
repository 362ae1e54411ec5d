"""The lake's tables as Delta tables in another folder, for programs that read those.

What a batch brought is appended together with its number, in one commit; so however often it is
done, it is there once. Gold is small, and is written as a whole.
"""

from __future__ import annotations

import datetime
from typing import Any

import msgspec

from ackline.errors import ConfigError, MissingExtra
from ackline.spark.lake.folder import Folder
from ackline.spark.lake.gold import BY_DAY, GOLD, OF_ALL
from ackline.spark.lake.lake import EVENTS, JOBS, Lake
from ackline.spark.paths import uri_of

TIDY_EVERY = 16
"""Commits of a table after which its small files are put together, and old ones dropped."""


def require_delta() -> Any:
    """The package that writes Delta tables, or what to install."""
    try:
        import deltalake
    except ModuleNotFoundError:
        raise MissingExtra("a lake with Delta tables", "delta") from None
    return deltalake


class DeltaTables:
    """Delta tables with the same rows as the tables of a lake."""

    def __init__(self, lake: Lake, path: str) -> None:
        self._delta = require_delta()
        self._lake = lake
        self.path = Folder(path).path

    def bring_up_to_date(self) -> None:
        """Add what the lake has and they have not. To be done before batches are put together."""
        for name in (EVENTS, JOBS):
            self._append(name)
        for table in (*BY_DAY, *OF_ALL):
            self._replace((GOLD, table))

    def drop(self, before: float) -> None:
        """Delete the events and lives that are older; their files go when they are tidied."""
        at = datetime.datetime.fromtimestamp(before, datetime.UTC).isoformat()
        for name, column in ((EVENTS, "at"), (JOBS, "ended_at")):
            if self._delta.DeltaTable.is_deltatable(self._at(name)):
                self._delta.DeltaTable(self._at(name)).delete(f"{column} < '{at}'")

    def _append(self, name: tuple[str, ...]) -> None:
        done = self._version(name, "ackline")
        for batch in self._lake.batches:
            if batch.number <= done or not self._lake.has(name, batch.number):
                continue
            if batch.begins <= done:
                raise ConfigError(
                    f"{self._at(name)} ends with batch {done}, and the lake has put later ones "
                    "together with earlier ones since: export to another folder"
                )
            parts = self._lake.parts(name, batch.number)
            self._write(name, parts, "append", "ackline", batch.number)

    def _replace(self, name: tuple[str, ...]) -> None:
        mark = self._lake.require()
        # With other objectives, all days of gold are other ones.
        by = f"ackline {msgspec.json.encode(mark.published_with, order='sorted').decode()}"
        if self._version(name, by) < mark.published:
            self._write(name, name, "overwrite", by, mark.published)

    def _write(
        self, name: tuple[str, ...], parts: tuple[str, ...], mode: str, by: str, number: int
    ) -> None:
        delta = self._delta
        rows = self._lake.folder.dataset(*parts).scanner().to_reader()
        transaction = delta.Transaction(by, number)
        delta.write_deltalake(
            self._at(name),
            rows,
            mode=mode,
            schema_mode="merge" if mode == "append" else "overwrite",
            commit_properties=delta.CommitProperties(app_transactions=[transaction]),
        )
        table = delta.DeltaTable(self._at(name))
        if table.version() % TIDY_EVERY == TIDY_EVERY - 1:
            table.optimize.compact()
            table.vacuum(dry_run=False)

    def _version(self, name: tuple[str, ...], by: str) -> int:
        """The last batch that a table has; -1 if it has none."""
        if not self._delta.DeltaTable.is_deltatable(self._at(name)):
            return -1
        found = self._delta.DeltaTable(self._at(name)).transaction_version(by)
        return -1 if found is None else int(found)

    def _at(self, name: tuple[str, ...]) -> str:
        return uri_of("/".join((self.path, *name)))
