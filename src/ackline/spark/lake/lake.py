"""What a lake says about itself: its version, whose journal it is, and what each batch brought."""

from __future__ import annotations

import datetime
import shlex
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec

from ackline.errors import ConfigError
from ackline.ids import new_id
from ackline.queues import Queues
from ackline.spark.errors import LakeDamaged
from ackline.spark.events.gaps import Gap, added
from ackline.spark.events.journal import first_events
from ackline.spark.lake.folder import Folder, Stamp
from ackline.spark.lake.placing import Check, check_nothing
from ackline.spark.pipelines.objectives import DEFAULT_OBJECTIVES

SCHEMA = 2
"""The version of a lake's tables. It grows with each change that a reader would notice."""

MARK, LOG = "lake.json", "log"
EVENTS, JOBS, OPEN = ("bronze", "events"), ("silver", "jobs"), ("silver", "open")
TRAFFIC, WORKERS, ERRORS = ("parts", "traffic"), ("parts", "workers"), ("parts", "errors")
SUMMARIES = (TRAFFIC, WORKERS, ERRORS)
"""Tables of counts and sketches, which gold is made of."""
KEPT_BY_BATCH = (EVENTS, JOBS, *SUMMARIES)
"""Tables to which each batch adds a folder of its own."""

CHECKPOINT = ("checkpoint",)

AT_ONCE = 8
"""Files that are read at the same time: each is a round trip to an object store."""

OWN = frozenset(
    {name[0] for name in (*KEPT_BY_BATCH, OPEN, CHECKPOINT)}
    | {MARK, LOG, "gold", "writing", "compacting", "compaction.json"}
)
"""All that a lake's folder ever has, by name."""

OF_NOBODY = "lost+found"
"""What a new file system has by itself, beside files whose names begin with a dot."""


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of `lake.json`."""

    schema: int
    store: str
    tenant: str
    id: str = ""
    """Identifies the lake, whatever path it is reached by."""
    objectives: Mapping[str, float] = msgspec.field(default_factory=DEFAULT_OBJECTIVES.copy)
    published: int = -1
    """The last batch that is in the gold tables."""
    published_with: Mapping[str, float] = {}
    """The objectives that the gold tables were made with."""
    read_at: float | None = None
    """When the last run began, by the store's clock: the lake has all events before that. None if
    an earlier version has run last."""
    delta: str | None = None
    """Where the same tables are kept as Delta tables."""
    gaps: list[Gap] = []
    """Dropped events that were skipped because somebody asked for that, as of the last run that
    has ended; `Lake.gaps` are those up to now."""
    first_events: Mapping[str, str | None] | None = msgspec.field(default=None, name="begins")
    """The first event of each journal that existed when the lake was made, None if that event was
    dropped by then; None as a whole if an earlier version has made the lake."""


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
    """The number of the first batch that it was put together from."""
    since: float | None = None
    """The earliest `last_at` of those."""
    going_on: int | None = None
    """Entries of lives that went on after it; None if an earlier version has logged it."""
    summary_rows: Mapping[str, int] = msgspec.field(default_factory=dict, name="parts")
    """Rows of the summaries that gold is made of; none if an earlier version has logged it."""
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
        return self.first if self.first is not None else 0 if self.level else self.number

    @property
    def first_ended_at(self) -> float:
        """When the first batch that it consists of ended."""
        return self.last_at if self.since is None else self.since


class Lake:
    """A lake of one tenant's journals in one store."""

    def __init__(self, path: str, check: Check = check_nothing) -> None:
        self.folder = Folder(path, check)
        self._read: dict[str, tuple[Stamp, Batch]] = {}
        """The files of the log that were read: each is read again only when it has changed."""

    def identify(self, queues: Queues) -> str:
        """Create it if it does not exist; returns its id."""
        if (mark := self.mark) is None:
            self._require_new()
            self._require_no_others()
            location = queues.info().location
            mark = Mark(schema=SCHEMA, store=location, tenant=queues.tenant, id=new_id())
            self.folder.create_json(mark, MARK)
            mark = self.require()
        elif not mark.id:
            self.change(id=new_id())
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
            self.change(first_events=first_events(queues))
        if mark.schema < SCHEMA:
            # Version 1 had no priorities in bronze: events from now on have them.
            self.change(schema=SCHEMA)
        return mark

    def require_of(self, queues: Queues, *, moved: bool = False) -> Mark:
        """The mark of a lake that must be of this tenant, and of this store unless it has moved."""
        location, mark = queues.info().location, self.require()
        here = location if moved else mark.store
        if (here, mark.tenant) != (location, queues.tenant):
            raise ConfigError(
                f"the lake {self.folder.path} has the journals of {mark.store}, tenant "
                f"{mark.tenant!r}, and this is {location}, tenant {queues.tenant!r}: use another "
                f"lake, or {self._way_back(mark, queues.tenant)}"
            )
        return mark

    def _way_back(self, mark: Mark, tenant: str) -> str:
        """What to do if it is the right lake."""
        if mark.tenant != tenant:
            return f"the tenant of this one: --tenant {shlex.quote(mark.tenant)}"
        return (
            "if it is the same store in another place, say so once: `ackline pipeline run --lake "
            f"{shlex.quote(self.folder.path)} --moved`"
        )

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

    def _require_no_others(self) -> None:
        """Refuse to make a lake among somebody else's files."""
        try:
            names = self.folder.names()
        except NotADirectoryError:
            raise ConfigError(f"{self.folder.path} is a file: a lake needs a folder") from None
        foreign = [name for name in names if name not in OWN and not name.startswith(".")]
        foreign = [name for name in foreign if name != OF_NOBODY]
        if foreign:
            raise ConfigError(
                f"{self.folder.path} is no lake, and has other files, such as {foreign[0]!r}; "
                "nothing was changed: name another folder, which may be missing or empty, or move "
                "these away"
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
        if self.batches and not self.folder.exists(*CHECKPOINT, "offsets"):
            raise ConfigError(
                f"the lake {self.folder.path} has lost its checkpoint, so nobody knows how far it "
                "has come: make another lake, which begins with the oldest entry that is kept"
            )

    @property
    def committed(self) -> int:
        """The last batch that Spark will not repeat; -1 if there is none."""
        names = self.folder.names(*CHECKPOINT, "commits")
        return max((int(name) for name in names if name.isdecimal()), default=-1)

    # --- what each batch brought ---

    @property
    def batches(self) -> list[Batch]:
        """All complete batches, in order."""
        stamps = {name: at for name, at in self.log_stamps.items() if name.endswith(".json")}
        known = {name: self._read[name] for name in stamps if self._is_known(name, stamps[name])}
        with ThreadPoolExecutor(AT_ONCE) as pool:
            read = pool.map(self._read_log, (name for name in stamps if name not in known))
            known |= {name: (stamps[name], batch) for name, batch in read if batch is not None}
        self._read = known
        return without_merged([known[name][1] for name in stamps if name in known])

    @property
    def log_stamps(self) -> dict[str, Stamp]:
        """The files of the log: they differ if a run has done anything since."""
        return self.folder.stamps(LOG)

    def _is_known(self, name: str, stamp: Stamp) -> bool:
        return name in self._read and self._read[name][0] == stamp

    def _read_log(self, name: str) -> tuple[str, Batch | None]:
        return name, self.folder.read_json(Batch, LOG, name)

    def batch(self, number: int) -> Batch | None:
        """A complete batch; None if it is not complete, or is part of another."""
        found: Batch | None = self.folder.read_json(Batch, LOG, _name(number))
        return found

    @property
    def gaps(self) -> list[Gap]:
        """All events that were skipped up to the last complete batch.

        A batch lists them from the moment that it is complete, `lake.json` when its run has ended.
        """
        known, batches = self.require().gaps, self.batches
        return known + added(batches[-1].gaps, known) if batches else known

    def log(self, batch: Batch) -> None:
        """Record that a batch is complete."""
        self._read.pop(_name(batch.number), None)
        self.folder.write_json(batch, LOG, _name(batch.number))

    def forget(self, number: int) -> None:
        """Remove a batch from the log: it is part of another now, or was dropped."""
        self.folder.remove(LOG, _name(number))

    def table(self, name: tuple[str, ...], number: int) -> str:
        """The own folder of one batch of a table, for Spark."""
        return self.folder.at(*self.segments(name, number))

    def segments(self, name: tuple[str, ...], number: int) -> tuple[str, ...]:
        """The same, as segments of a path below the lake."""
        return (*name, f"batch_id={number}")

    def place(self, name: tuple[str, ...], batch: Batch) -> tuple[str, ...]:
        """The folder in which a complete batch has a table now, as segments of a path."""
        aside = (*batch.aside.split("/"), *name)
        # A run that woke up late may have logged this for a batch that is in its place by now.
        if batch.aside and self.folder.exists(*aside):
            return aside
        return self.segments(name, batch.number)

    def has(self, name: tuple[str, ...], number: int) -> bool:
        """Whether a batch is there: old ones may have been dropped."""
        return self.folder.exists(*self.segments(name, number))


def without_merged(batches: Sequence[Batch]) -> list[Batch]:
    """The batches in order, without those that are part of a later one and not forgotten yet."""
    found: list[Batch] = []
    for batch in reversed(batches):
        # An earlier version did not record which batches it has put together.
        later = found[-1] if found and found[-1].first is not None else None
        if later is None or later.first_number > batch.number:
            found.append(batch)
    return found[::-1]


def _name(number: int) -> str:
    return f"{number:012d}.json"
