"""Where the micro-batches of a stream of events begin and end, without Spark."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Set

import msgspec

from ackline.core.errors import EventsDropped
from ackline.core.events import read_cursor
from ackline.core.ids import new_id
from ackline.queues import Queues
from ackline.spark.errors import StreamBehind, StreamMismatch
from ackline.spark.journal.gaps import compact_gaps
from ackline.spark.journal.journals import JOURNAL_START, full_range, require_not_past_end
from ackline.spark.options import EventsOptions
from ackline.spark.streams.events.high_watermark import raise_watermark, require_below_watermark
from ackline.spark.streams.events.offset import OLDEST, EventsOffset, StreamScope
from ackline.spark.streams.events.pending_gaps import PendingGaps
from ackline.spark.streams.events.reader_cursors import ReaderCursors
from ackline.spark.streams.events.retained_journals import RetainedJournals

logger = logging.getLogger("ackline")


class IdleState(msgspec.Struct, frozen=True):
    """An offset after which nothing has happened up to an end: no queue need be asked again."""

    start: EventsOffset
    end: str
    searched: str
    """Where the last search ended: in a cluster, events just before `end` may not show yet."""


class SearchRange(msgspec.Struct, frozen=True):
    """Places of the queues that may have unread events up to `end`; no other queue has any."""

    places: Mapping[str, str]
    end: str


class EventsPlanner:
    """The planning of one stream by one driver. Every call can be repeated."""

    def __init__(self, queues: Queues, options: EventsOptions) -> None:
        self.queues = queues
        self._options = options
        self._journals = RetainedJournals(queues, options)
        self._places = ReaderCursors(queues, options.reader)
        self._target: str | None = None
        self._quiet: IdleState | None = None
        self._forgotten: Set[str] = frozenset()
        """Queues that the last offset no longer has, but the one before it had."""
        self._gaps = PendingGaps(queues)
        self._scope = StreamScope(tenant=queues.tenant, queue=options.queue)

    def close(self) -> None:
        """Close the store."""
        self.queues.close()

    def stop_at_current_end(self) -> None:
        """Leave all events from now on to the next run."""
        self._target = self._journals.end()

    def initial_offset(self) -> EventsOffset:
        """Where a new stream begins."""
        starts, end = full_range(self.queues, self._options.queue)
        match self._options.start:
            case "oldest":
                return self._initial(OLDEST, starts)
            case "now":
                return self._initial(end, dict.fromkeys(starts, end))
            case cursor:
                require_not_past_end(cursor, end)
                return self._initial(cursor, dict.fromkeys(starts, cursor))

    def _initial(self, new: str, queues: Mapping[str, str]) -> EventsOffset:
        return EventsOffset(started_at=new, cursors=queues, initial=True, scope=self._scope)

    def save_progress(self, offset: EventsOffset) -> None:
        """Save that all before this offset is done: its events need not be kept for us any more."""
        self._places.save_offset(offset, self._options.queue, self._forgotten)

    def start_cursors(self, start: EventsOffset, end: EventsOffset) -> dict[str, str]:
        """From where each queue is read in the micro-batch between two offsets."""
        self._require_ours(end)
        starts = {**start.cursors, **end.batch_start}
        starts = {name: place for name, place in starts.items() if name in end.cursors}
        gone = self._journals.dropped_between(starts, end.cursors)
        # Before anything is read: this run may die before it plans the offset that lists the gaps.
        self._gaps.record(end.gaps_key, gone)
        self._quiet = None
        return starts | {gap.queue: gap.until for gap in gone}

    def next_offset(self, start: EventsOffset, most: int | None) -> EventsOffset:
        """Where the next micro-batch ends; the start itself if nothing has happened."""
        end = self._next(start, most)
        if end == start and self._target is None and self._options.wait:
            return self._wait(start, most)
        return end

    def _wait(self, start: EventsOffset, most: int | None) -> EventsOffset:
        """Wait a little for events: otherwise Spark asks a hundred times a second."""
        with self._journals.listen() as listener:
            end = self._next(start, most)
            if end == start:
                listener.wait(self._options.wait)
        return end if end != start else self._next(start, most)

    def _next(self, start: EventsOffset, most: int | None) -> EventsOffset:
        while True:
            try:
                return self._plan(start, most)
            except StreamBehind:
                raise
            except EventsDropped:
                # They were there a moment ago. Planned anew, they are a gap.
                logger.info("events were dropped while a micro-batch was planned; planning anew")

    def _plan(self, start: EventsOffset, most: int | None) -> EventsOffset:
        self._require_ours(start)
        if start.initial:
            # Not in `first`: Spark asks for the beginning again when the first micro-batch is
            # repeated, and it may differ by then.
            self.save_progress(start)
        present, known = self._target or self._journals.end(), start.cursors
        if self._quiet is not None and self._quiet.start == start and self._quiet.end == present:
            return start
        search = self._search(start, present)
        ahead, gaps = self._journals.unread(search.places, search.end)
        noted = self._gaps.get(start.gaps_key) if start.gaps_key else []
        gaps = [gap for gap in noted if gap not in start.gaps] + gaps
        if not ahead and not gaps:
            self._quiet = IdleState(start, present, search.end)
            return start
        stream = start.gaps_key or new_id()
        # From now on these journals are kept for us, though the first commit comes much later.
        new = {name: place for name, place in ahead.items() if name not in known}
        self._places.save(new, stream)
        places = {**known, **ahead}
        moved = self._advance(list(ahead), places, search.end, most)
        queues = self._without_finished_queues(places | moved, ahead)
        self._forgotten = known.keys() - queues.keys()
        self._places.forget(self._forgotten)
        offset = EventsOffset(
            started_at=start.started_at,
            cursors=queues,
            # If asked again, the store may have dropped events, and the beginning would differ.
            batch_start=places if start.initial else ahead,
            gaps=compact_gaps(start.gaps + gaps),
            gaps_key=stream,
            searched_to=search.end,
            unfinished=[name for name in ahead if moved.get(name) != search.end],
            scope=self._scope,
        )
        return self._with_high_watermark(start, offset)

    def _search(self, start: EventsOffset, end: str) -> SearchRange:
        """Search the journal of all queues for news, so that idle queues need not be asked."""
        news, after = None, self._searched(start)
        if after is not None:
            news = self._journals.active_queues(after, end, len(start.cursors))
        if news is None:
            names = [*start.cursors, *self._journals.names()]
        else:
            names, end = [*start.unfinished, *sorted(news.names)], news.end
        # A queue without a place has nothing unread before the furthest one.
        furthest = start.furthest
        return SearchRange({name: start.cursors.get(name, furthest) for name in names}, end)

    def _searched(self, start: EventsOffset) -> str | None:
        """Up to where the journal of all queues was searched already."""
        if self._quiet is not None and self._quiet.start == start:
            return self._quiet.searched
        return start.searched_to

    def _without_finished_queues(
        self, places: Mapping[str, str], ahead: Collection[str]
    ) -> dict[str, str]:
        """All places but those of queues that were dropped and are read to their end.

        There may be ever more of these. One that was read further than all others stays: a queue
        that is made anew is read from the furthest place, which must not go back.
        """
        finished = places.keys() - self._journals.live() - set(ahead)
        rest = {name: at for name, at in places.items() if name not in finished}
        furthest = read_cursor(max(rest.values(), key=read_cursor, default=JOURNAL_START))
        return {
            name: at for name, at in places.items() if name in rest or read_cursor(at) > furthest
        }

    def _with_high_watermark(self, start: EventsOffset, offset: EventsOffset) -> EventsOffset:
        """Note in the store how far the stream reads, if it has a reader's name to write under."""
        if self._options.reader is None:
            return offset
        horizon = start.watermark_key or new_id()
        raise_watermark(self.queues, horizon, offset.all_cursors)
        return msgspec.structs.replace(offset, watermark_key=horizon)

    def _advance(
        self, ahead: list[str], places: Mapping[str, str], end: str, most: int | None
    ) -> dict[str, str]:
        """How far each queue is read; a limit is shared equally, those furthest behind first."""
        if most is None:
            return dict.fromkeys(ahead, end)
        moved: dict[str, str] = {}
        for index, name in enumerate(sorted(ahead, key=lambda name: read_cursor(places[name]))):
            if most == 0:
                break
            share = max(1, most // (len(ahead) - index))
            moved[name], read = self._journals.advance(name, places[name], end, share)
            most -= read
        return moved

    def _require_ours(self, offset: EventsOffset) -> None:
        """Refuse the checkpoint of another stream, or one that cannot come from this store."""
        if offset.scope != self._scope:
            raise StreamMismatch(
                f"the checkpoint has read {offset.scope}, and this stream reads {self._scope}: "
                "use the options that it began with, or another checkpointLocation"
            )
        require_below_watermark(self.queues, offset.watermark_key, offset.all_cursors)
