"""A lake: whose journals it has, whether it may be used, and where its tables are."""

from __future__ import annotations

import shlex

import msgspec

from ackline.core.errors import ConfigError
from ackline.core.ids import new_id
from ackline.queues import Queues
from ackline.spark.errors import LakeDamaged
from ackline.spark.journal.gaps import Gap, new_gaps
from ackline.spark.journal.journals import first_cursors
from ackline.spark.lake.batch_log import Batch, BatchLog
from ackline.spark.lake.folder import Folder
from ackline.spark.lake.layout import CHECKPOINT, LOG, MARK, OWN, Table, batch_folder
from ackline.spark.lake.mark import SCHEMA, Mark
from ackline.spark.lake.placing import Check, check_nothing

OF_NOBODY = "lost+found"
"""What a new file system has by itself, beside files whose names begin with a dot."""


class Lake:
    """A lake of one tenant's journals in one store."""

    def __init__(self, path: str, check: Check = check_nothing) -> None:
        self.folder = Folder(path, check)
        self.log = BatchLog(self.folder)

    def identify(self, queues: Queues) -> str:
        """Create it if it does not exist; returns its id."""
        if (mark := self.mark) is None:
            self._require_new()
            _require_no_others(self.folder)
            location = queues.info().location
            mark = Mark(schema=SCHEMA, store=location, tenant=queues.tenant, id=new_id())
            self.folder.create_json(mark, MARK)
            mark = self.require()
        return mark.id

    def open(self, queues: Queues, *, moved: bool = False) -> Mark:
        """Create it, or check that it is the right one."""
        self.identify(queues)
        mark = self.require_of(queues, moved=moved)
        if moved:
            self.change(store=queues.info().location)
        self._require_checkpoint()
        if not self._has_begun:
            self.change(first_events=first_cursors(queues))
        return mark

    def require_of(self, queues: Queues, *, moved: bool = False) -> Mark:
        """The mark of a lake that must be of this tenant, and of this store unless it has moved."""
        location, mark = queues.info().location, self.require()
        here = location if moved else mark.store
        if (here, mark.tenant) != (location, queues.tenant):
            raise ConfigError(
                f"the lake {self.folder.path} has the journals of {mark.store}, tenant "
                f"{mark.tenant!r}, and this is {location}, tenant {queues.tenant!r}: use another "
                f"lake, or {_way_back(self.folder.path, mark, queues.tenant)}"
            )
        return mark

    def require(self) -> Mark:
        """The mark of a lake that must exist already."""
        mark = self.mark
        if mark is None:
            self._require_new()
            raise ConfigError(
                f"there is no lake at {self.folder.path}: make one with "
                "`ackline pipeline run --lake PATH`"
            )
        return mark

    @property
    def mark(self) -> Mark | None:
        """What the lake says about itself; None if it does not exist yet."""
        mark: Mark | None = self.folder.read_json(Mark, MARK)
        if mark is not None and mark.schema > SCHEMA:
            raise ConfigError(
                f"the lake {self.folder.path} has schema {mark.schema}, and this Ackline knows "
                f"{SCHEMA}: use a newer Ackline, or another lake"
            )
        return mark

    def _require_new(self) -> None:
        """Refuse a lake that lost its mark, which says what it lacks and whose journals it has."""
        if self._has_begun:
            raise LakeDamaged(
                f"{self.folder.at(MARK)} is missing, and the lake has batches already: someone "
                "else has changed it. Restore this file from a backup, or make another lake, which "
                "begins with the oldest entry that is kept"
            )

    @property
    def _has_begun(self) -> bool:
        """Whether a run has ever taken in any events."""
        return bool(self.folder.names(LOG) or self.folder.names(*CHECKPOINT, "offsets"))

    def change(self, **values: object) -> None:
        """Change the mark."""
        self.folder.write_json(msgspec.structs.replace(self.require(), **values), MARK)

    def _require_checkpoint(self) -> None:
        """Refuse a lake without its checkpoint: Spark would start over, and all be there twice."""
        if self.log.batches and not self.folder.exists(*CHECKPOINT, "offsets"):
            raise ConfigError(
                f"the lake {self.folder.path} has lost its checkpoint, so nobody knows how far it "
                "has come: make another lake, which begins with the oldest entry that is kept"
            )

    @property
    def committed(self) -> int:
        """The last batch that Spark will not repeat; -1 if there is none."""
        names = self.folder.names(*CHECKPOINT, "commits")
        return max((int(name) for name in names if name.isdecimal()), default=-1)

    @property
    def gaps(self) -> list[Gap]:
        """All events that were skipped up to the last complete batch.

        A batch lists them from the moment that it is complete, `lake.json` when its run has ended.
        """
        known, batches = self.require().gaps, self.log.batches
        return known + new_gaps(batches[-1].gaps, known) if batches else known

    def table(self, table: Table, number: int) -> str:
        """The own folder of one batch of a table, for Spark."""
        return self.folder.at(*batch_folder(table, number))

    def place(self, table: Table, batch: Batch) -> tuple[str, ...]:
        """The folder in which a complete batch has a table now, as segments of a path."""
        aside = (*batch.aside.split("/"), *table)
        # A run that woke up late may have logged this for a batch that is in its place by now.
        if batch.aside and self.folder.exists(*aside):
            return aside
        return batch_folder(table, batch.number)

    def has(self, table: Table, number: int) -> bool:
        """Whether a batch is there: old ones may have been dropped."""
        return self.folder.exists(*batch_folder(table, number))


def _way_back(path: str, mark: Mark, tenant: str) -> str:
    """What to do if it is the right lake."""
    if mark.tenant != tenant:
        return f"the tenant of this one: --tenant {shlex.quote(mark.tenant)}"
    return (
        "if it is the same store in another place, say so once: `ackline pipeline run --lake "
        f"{shlex.quote(path)} --moved`"
    )


def _require_no_others(folder: Folder) -> None:
    """Refuse to make a lake among somebody else's files."""
    try:
        names = folder.names()
    except NotADirectoryError:
        raise ConfigError(f"{folder.path} is a file: a lake needs a folder") from None
    foreign = [name for name in names if name not in OWN and not name.startswith(".")]
    foreign = [name for name in foreign if name != OF_NOBODY]
    if foreign:
        raise ConfigError(
            f"{folder.path} is no lake, and has other files, such as {foreign[0]!r}; nothing was "
            "changed: name another folder, which may be missing or empty, or move these away"
        )
