"""The journal as a stream: a micro-batch is what lies between two places, and can be read again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import pyarrow
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from ackline.errors import ConfigError, EventsDropped
from ackline.events import Event, Events, read_cursor
from ackline.ids import new_id
from ackline.job import QueueKey
from ackline.queues import Queues
from ackline.spark.errors import StreamBehind
from ackline.spark.events import Stretch, read_stretch
from ackline.spark.horizon import note_horizon, require_within
from ackline.spark.journal import NOTHING_DROPPED, cut, journals, just_before, whole_journal
from ackline.spark.options import ReadEvents
from ackline.spark.place import Place
from ackline.spark.retrying import retrying

logger = logging.getLogger("ackline")

T = TypeVar("T")
Offset = Mapping[str, Any]


class EventsStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads `events` as they happen. An offset has a cursor for each queue.

    What was pruned before the stream came to it is refused with `EventsDropped`, and skipped only
    if the options name the queue. So is a store that was restored since, with `StreamMismatch`.
    """

    def __init__(self, options: ReadEvents, place: Place) -> None:
        self.options = options
        self.place = place
        self._queues: Queues | None = None
        self._initial: dict[str, Any] | None = None
        self._saved: dict[str, str] = {}
        self._target: str | None = None

    # --- planning, in one process that lives as long as the query ---

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Where a new stream begins; Spark asks again until something has happened."""
        if self._initial is None:
            self._initial = self._try(self._first)
            self.commit(self._initial)
        return self._initial

    def _first(self) -> dict[str, Any]:
        names = self._names()
        starts, ends = whole_journal(self._open(), names)
        match self.options.start:
            case "oldest":
                return _offset(self.options.start, starts) | {"initial": True}
            case "now":
                return _offset(self._open().info().cursor, ends) | {"initial": True}
            case cursor:
                _require_reached(cursor, self._open().info().cursor)
                return _offset(cursor, dict.fromkeys(names, cursor)) | {"initial": True}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """As many as the options allow."""
        most = self.options.max_events_per_trigger
        return ReadMaxRows(most) if most is not None else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Whatever happens from now on is left to the next run."""
        self._target = self._try(lambda: self._open().info().cursor)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Where the next micro-batch ends."""
        require_offset(start)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return self._try(lambda: self._latest(start, most))

    def _latest(self, start: Offset, most: int | None) -> dict[str, Any]:
        end = self._next(start, most)
        if end == start and self._target is None and self.options.wait:
            return self._wait(start, most)
        return end

    def _wait(self, start: Offset, most: int | None) -> dict[str, Any]:
        """Wait a little for news: Spark asks again a hundred times a second."""
        keys = [QueueKey(self.place.tenant, name) for name in self._names()]
        with self._open().store.listen(keys, "changes") as listener:
            end = self._next(start, most)
            if end == start:
                listener.wait(self.options.wait)
        return end if end != start else self._next(start, most)

    def _next(self, start: Offset, most: int | None) -> dict[str, Any]:
        self._require_same_store(start)
        end = self._target or self._open().info().cursor
        known: Mapping[str, str] = start["queues"]
        new = {name: _begin(start) for name in self._names() if name not in known}
        skipped: list[dict[str, str]] = list(start.get("skipped", ()))
        ahead = self._ahead({**known, **new}, end, skipped)
        if not ahead:
            return dict(start)
        # From here on the journal is kept for us, though the first commit comes much later.
        self._save({name: place for name, place in ahead.items() if name in new})
        places = {**known, **ahead}
        # Asked again, the store may have dropped some of it and would name another beginning.
        begun = places if start.get("initial") else ahead
        moved = self._move(list(ahead), places, end, most)
        offset = _offset(start["new"], places | moved, begun)
        if skipped:
            offset["skipped"] = skipped
        return self._noted(start, offset)

    def _noted(self, start: Offset, offset: dict[str, Any]) -> dict[str, Any]:
        """Let the store know how far the stream reads, if it may write there."""
        if self.options.reader is not None:
            offset["horizon"] = start.get("horizon") or new_id()
            note_horizon(self._open(), offset["horizon"], offset["queues"].values())
        return offset

    def _move(
        self, ahead: list[str], places: Mapping[str, str], end: str, most: int | None
    ) -> dict[str, str]:
        """How far each queue is read; with a limit, an equal share of it, those behind first."""
        if most is None:
            return dict.fromkeys(ahead, end)
        moved: dict[str, str] = {}
        for index, name in enumerate(sorted(ahead, key=lambda name: read_cursor(places[name]))):
            if most == 0:
                break
            share = max(1, most // (len(ahead) - index))
            moved[name], read = self._walk(name, places[name], end, share)
            most -= read
        return moved

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """The same stretches each time, however often they are asked for."""
        require_offset(start)
        require_offset(end)
        starts = self._try(lambda: self._starts(start, end))
        return [Stretch(piece) for piece in cut(starts, end["queues"], self.options.tasks)]

    def _starts(self, start: Offset, end: Offset) -> dict[str, str]:
        self._require_same_store(end)
        starts = {**start["queues"], **end["begun"]}
        return {
            name: self._kept(name, place)[0] if self.options.may_skip(name) else place
            for name, place in starts.items()
        }

    def commit(self, end: Offset) -> None:
        """What is before this is done: the journal need not be kept for us any longer."""
        self._try(lambda: self._save(end["queues"]))

    def _save(self, places: Mapping[str, str]) -> None:
        if self.options.reader is None:
            return
        for name, cursor in places.items():
            if self._saved.get(name) == cursor:
                continue
            reader = self._open()[name].reader(self.options.reader)
            reader.cursor = cursor
            reader.save()
            self._saved[name] = cursor

    def stop(self) -> None:
        """Let go of the store."""
        if self._queues is not None:
            self._queues.close()
            self._queues = None

    # --- reading, in any process ---

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """The events of one stretch, a page at a time."""
        return read_stretch(self.place, partition, self.options)

    # --- what the planning needs ---

    def _try(self, act: Callable[[], T]) -> T:
        """Do what the store is needed for; each act may be repeated."""
        return retrying(act, self.options.retry_for)

    def _open(self) -> Queues:
        if self._queues is None:
            self._queues = self.place.connect()
        return self._queues

    def _names(self) -> list[str]:
        return journals(self._open()) if self.options.queue is None else [self.options.queue]

    def _require_same_store(self, offset: Offset) -> None:
        require_within(self._open(), offset.get("horizon"), offset["queues"].values())

    def _ahead(
        self, places: Mapping[str, str], end: str, skipped: list[dict[str, str]]
    ) -> dict[str, str]:
        """The queues in which something has happened, and from where on each is read.

        `EventsDropped` if some of that is gone, unless it may be skipped, which is then noted.
        """
        ahead, last = {}, read_cursor(end)
        for name, place in places.items():
            if read_cursor(place) >= last:
                continue
            kept, first = self._kept(name, place)
            if first is None or read_cursor(first.cursor) > last:
                continue
            if kept != place:
                skipped.append({"queue": name, "after": place, "until": kept})
            # Nothing is before its first event, which may be far on.
            ahead[name] = max(kept, just_before(first), key=read_cursor)
        return ahead

    def _kept(self, name: str, place: str) -> tuple[str, Event | None]:
        """Where a queue can be read on: here, unless what comes is gone and may be skipped.

        With the first event that comes after that, if there is one.
        """
        key = QueueKey(self.place.tenant, name)
        while True:
            try:
                page = self._open().store.events(key, place, 1)
                return place, page[0] if page else None
            except EventsDropped as error:
                if not self.options.may_skip(name):
                    raise StreamBehind(name, place, error.cursor) from None
                logger.warning(
                    "queue %r has dropped events after cursor %s: the stream skips those up to %s",
                    *(name, place, error.cursor),
                )
                place = error.cursor

    def _walk(self, name: str, after: str, end: str, most: int) -> tuple[str, int]:
        """The place this many events further, or the end; and how many are before it."""
        store, key, left = self._open().store, QueueKey(self.place.tenant, name), most
        while left > 0:
            page = Events.of(store.events(key, after, min(left, self.options.page_size))).until(end)
            if page.cursor is None:
                return end, most - left
            after, left = page.cursor, left - len(page)
        return after, most


def _require_reached(cursor: str, end: str) -> None:
    if read_cursor(cursor) > read_cursor(end):
        raise ConfigError(f"start={cursor} is after the end of this store's journal, {end}")


def _begin(start: Offset) -> str:
    """Where a queue begins that came into being since the stream did: all of it is to be read."""
    return NOTHING_DROPPED if start["new"] == "oldest" else str(start["new"])


def _offset(
    new: str, places: Mapping[str, str], begun: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """`queues` has how far each was read; `new` is where those begin that are not among them.

    `begun` has from where on the queues are read that are in this micro-batch. Where the stream
    begins is marked as `initial`. `skipped` has all that was ever left out because it was gone;
    under the name in `horizon` the store knows how far the stream has come.
    """
    return {"new": new, "queues": dict(places), "begun": dict(begun or {})}


def require_offset(offset: Offset) -> None:
    """Refuse an offset that another source wrote."""
    if not isinstance(offset.get("queues"), Mapping):
        raise ConfigError(
            f"the checkpoint has an offset of another source: {dict(offset)!r}. "
            "Give each query a checkpointLocation of its own"
        )
