"""A run of a lake: up to now, or until it is stopped."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import msgspec
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ackline.queues import Queues
from ackline.spark.errors import LakeClaimed
from ackline.spark.journal.gaps import Gap, new_gaps
from ackline.spark.lake.checkpoint import committed_offset
from ackline.spark.lake.claim import Fence, LakeClaim
from ackline.spark.lake.compaction import Compaction
from ackline.spark.lake.damage import naming_damage_in_spark
from ackline.spark.lake.delta import DeltaTables
from ackline.spark.lake.expiry import drop_expired, expired
from ackline.spark.lake.gold import BY_DAY, OF_ALL, Publisher
from ackline.spark.lake.lake import Lake
from ackline.spark.lake.layout import CHECKPOINT, GOLD, KEPT_BY_BATCH, LOG, OPEN, WRITING
from ackline.spark.lake.micro_batch import MicroBatch, pass_nothing
from ackline.spark.lake.placing import Check
from ackline.spark.options import CommonOptions
from ackline.spark.queue_names import queues_as_text
from ackline.spark.store.address import resolve_address
from ackline.spark.store.retry import DEFAULT_RETRY_FOR, retry_transient
from ackline.spark.streams.events.offset import parse_offset
from ackline.spark.streams.events.reader_cursors import ReaderCursors

NO_DELTA = "none"

PAUSE = 10.0
"""Seconds between the batches of a run without an end."""

CHECK_EVERY = 5
"""Seconds between checks that this run still has the lake, while Spark takes a batch in."""

SWEPT = (
    *((), (LOG,), OPEN, *KEPT_BY_BATCH),
    *((GOLD, table) for table in (*BY_DAY, *OF_ALL)),
)
"""Folders in which a killed run may have left what it wrote or put aside."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a run should do."""

    url: str
    tenant: str
    lake: str
    reader: str | None = "lake"
    objectives: Mapping[str, float | None] = {}
    """Saved in the lake for later runs; None removes that of a queue."""
    delta: str | None = None
    """Where to keep its tables as Delta tables, saved for later runs; `NO_DELTA` ends that."""
    keep: float | None = None
    moved: bool = False
    shared_files: bool = False
    events_per_batch: int | None = None
    """At most, in one batch; None takes in all there are."""
    skip_dropped: tuple[str, ...] = ()
    """Queues whose dropped events may be skipped."""


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """What a run did."""

    lake: str
    batches: int
    events: int
    ended: int
    days: int
    """Days that were rebuilt in the gold tables."""
    compacted: int
    dropped: int
    seconds: float
    skipped: list[Gap] = []
    """Gaps that this run left, because the journal had dropped these events."""


def still_ours(passing: Callable[[str], None], claim: LakeClaim | Fence) -> Check:
    """The check before each change of the lake: wherever a run sleeps, another may take over."""

    def check() -> None:
        passing("changing")
        retry_transient(claim.check, DEFAULT_RETRY_FOR)

    return check


def sweep(lake: Lake) -> None:
    """Remove what killed runs have left while they changed the lake."""
    for above in SWEPT:
        lake.folder.sweep(*above)


class Run:
    """One run of a lake."""

    def __init__(
        self,
        spark: SparkSession,
        queues: Queues,
        asked: Asked,
        passing: Callable[[str], None] = pass_nothing,
        batch: type[MicroBatch] = MicroBatch,
    ) -> None:
        self._spark = spark
        self._queues = queues
        self._batch = batch
        self._asked = asked
        self._pass = passing
        common = CommonOptions(
            store=asked.url, table="events", tenant=asked.tenant, shared_files=asked.shared_files
        )
        self._address = resolve_address(common)
        self.lake = Lake(asked.lake)
        self._delta: DeltaTables | None = None
        self._places = ReaderCursors(queues, asked.reader)

    def to_now(self) -> Ran:
        """Take in what has happened up to now."""
        with self._claimed() as claim, naming_damage_in_spark():
            return self._once(claim)

    def for_ever(self, report: Callable[[Ran], None], stopping: threading.Event) -> None:
        """Take in what happens, every few seconds, until `stopping` is set."""
        with self._claimed() as claim, naming_damage_in_spark():
            while not stopping.is_set():
                ran = self._once(claim)
                if ran.events or ran.skipped:
                    report(ran)
                stopping.wait(PAUSE)

    @contextmanager
    def _claimed(self) -> Iterator[LakeClaim]:
        """Claim the lake: two runs at once would remove what the other has just written."""
        lake = self.lake.identify(self._queues)
        claim = LakeClaim(self._queues, lake, self.lake.folder.path)
        claim.take()
        claim.keep()
        try:
            if self.lake.identify(self._queues) != lake:
                raise LakeClaimed(f"another run has just made {self.lake.folder.path}: try again")
            self.lake = Lake(self._asked.lake, still_ours(self._pass, claim))
            self._prepare()
            yield claim
        finally:
            claim.release()

    def _prepare(self) -> None:
        """Open the lake, and save in it what later runs need of this run's options."""
        asked = self._asked
        mark = self.lake.open(self._queues, moved=asked.moved)
        sweep(self.lake)
        if asked.objectives:
            objectives = {**mark.objectives, **asked.objectives}
            kept = {queue: span for queue, span in objectives.items() if span is not None}
            self.lake.change(objectives=kept)
        path = self.lake.require().delta if asked.delta is None else asked.delta
        self._delta = None if path in (None, NO_DELTA) else DeltaTables(self.lake, path)
        if self._delta is not None:
            self._delta.open()
        if asked.delta is not None:
            self.lake.change(delta=None if self._delta is None else self._delta.path)

    def _once(self, claim: LakeClaim) -> Ran:
        began = time.monotonic()
        # By the store's clock, as the events are: this machine's may be wrong.
        now = retry_transient(self._queues.info, DEFAULT_RETRY_FOR).now
        compaction = Compaction(self._spark, self.lake, self._pass)
        compaction.finish()
        # A batch that was logged but not committed is repeated, and counts for this run.
        before = self.lake.committed
        skipped = self._take_in(claim)
        self._pass("ran")
        self.lake.folder.remove(WRITING)
        new = [batch for batch in self.lake.log.batches if batch.number > before]
        days, compacted, dropped = self._tidy(compaction, now)
        self.lake.change(read_at=now)
        return Ran(
            lake=self.lake.folder.path,
            batches=len(new),
            events=sum(batch.events for batch in new),
            ended=sum(batch.ended for batch in new),
            days=days,
            compacted=compacted,
            dropped=dropped,
            seconds=time.monotonic() - began,
            skipped=skipped,
        )

    def _take_in(self, claim: LakeClaim) -> list[Gap]:
        lake = Lake(self._asked.lake, still_ours(self._pass, claim.fence(self._address)))
        query = self._start(self._batch(lake, self._address, self._pass))
        try:
            while not query.awaitTermination(CHECK_EVERY):
                retry_transient(claim.check, DEFAULT_RETRY_FOR)
        finally:
            query.stop()
        self._save_place()
        return self._note_gaps(query)

    def _save_place(self) -> None:
        """Save in the store how far the lake has come, now that Spark's checkpoint says it.

        Spark tells the stream that a batch is done only when the next one comes, which may be days
        later, and until then the store would keep a journal that the lake has.
        """
        offset = None if self._asked.reader is None else committed_offset(self.lake)
        if offset is not None:
            retry_transient(lambda: self._places.save_offset(offset), DEFAULT_RETRY_FOR)

    def _note_gaps(self, query: StreamingQuery) -> list[Gap]:
        """Save the gaps of the stream in the lake; returns those that are new."""
        ends = [progress.sources[0].endOffset for progress in query.recentProgress]
        if not ends:
            return []
        gaps, known = parse_offset(msgspec.json.decode(ends[-1])).gaps, self.lake.require().gaps
        if gaps != known:
            self.lake.change(gaps=gaps)
        return new_gaps(gaps, known)

    def _tidy(self, compaction: Compaction, now: float) -> tuple[int, int, int]:
        days = Publisher(self._spark, self.lake).publish(now)
        self._pass("published")
        if self._delta is not None:
            self._delta.bring_up_to_date()
            self._pass("exported")
        dropped = self._drop_old(now)
        compacted = compaction.compact()
        return len(days), compacted, dropped

    def _drop_old(self, now: float) -> int:
        if self._asked.keep is None:
            return 0
        before = now - self._asked.keep
        if self._delta is not None and expired(self.lake.log.batches, before, now):
            self._delta.drop(before)
        return drop_expired(self.lake, before, now, self._pass)

    def _start(self, act: MicroBatch) -> StreamingQuery:
        options = {
            "store": self._asked.url,
            "tenant": self._asked.tenant,
            "sharedFiles": str(self._asked.shared_files).lower(),
        }
        if self._asked.reader is not None:
            options["reader"] = self._asked.reader
        if self._asked.events_per_batch is not None:
            options["maxEventsPerTrigger"] = str(self._asked.events_per_batch)
        if self._asked.skip_dropped:
            options["skipDropped"] = queues_as_text(self._asked.skip_dropped)
        events = self._spark.readStream.format("ackline").options(**options).load("events")
        return (
            events.writeStream.foreachBatch(act)
            .option("checkpointLocation", self.lake.folder.at(*CHECKPOINT))
            .trigger(availableNow=True)
            .start()
        )
