"""Plans the micro-batches of a stream of events; needs no Spark."""

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
    """An offset after which nothing has happened up to `end`."""

    start: EventsOffset
    end: str
    searched_to: str
    """Where the last search ended: a cluster may not show events just before `end` yet."""


class SearchRange(msgspec.Struct, frozen=True):
    """Cursors of the queues that may have unread events up to `end`; no other queue has any."""

    cursors: Mapping[str, str]
    end: str


class EventsPlanner:
    """Plans one stream for one driver. Every call can be repeated."""

    def __init__(self, queues: Queues, options: EventsOptions) -> None:
        self.queues = queues
        self._options = options
        self._journals = RetainedJournals(queues, options)
        self._reader_cursors = ReaderCursors(queues, options.reader)
        self._target: str | None = None
        self._idle: IdleState | None = None
        self._forgotten: Set[str] = frozenset()
        """Queues that the last offset no longer has, but the one before it had."""
        self._gaps = PendingGaps(queues)
        self._scope = StreamScope(tenant=queues.tenant, queue=options.queue)

    def close(self) -> None:
        """Close the store."""
        self.queues.close()

    def stop_at_current_end(self) -> None:
        """Leave later events to the next run."""
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
        """Save that everything before this offset is done, so that it need not be kept."""
        self._reader_cursors.save_offset(offset, self._options.queue, self._forgotten)

    def start_cursors(self, start: EventsOffset, end: EventsOffset) -> dict[str, str]:
        """Where reading each queue starts in the micro-batch between two offsets."""
        self._require_ours(end)
        starts = {**start.cursors, **end.batch_start}
        starts = {name: cursor for name, cursor in starts.items() if name in end.cursors}
        gone = self._journals.dropped_between(starts, end.cursors)
        # Before anything is read: this run may die before it plans the offset that lists the gaps.
        self._gaps.record(end.gaps_key, gone)
        self._idle = None
        return starts | {gap.queue: gap.until for gap in gone}

    def next_offset(self, start: EventsOffset, max_events: int | None) -> EventsOffset:
        """Where the next micro-batch ends; the start itself if nothing has happened."""
        end = self._next(start, max_events)
        if end == start and self._target is None and self._options.wait:
            return self._wait(start, max_events)
        return end

    def _wait(self, start: EventsOffset, max_events: int | None) -> EventsOffset:
        """Wait a little for events: otherwise Spark would call a hundred times a second."""
        with self._journals.listen() as listener:
            end = self._next(start, max_events)
            if end == start:
                listener.wait(self._options.wait)
        return end if end != start else self._next(start, max_events)

    def _next(self, start: EventsOffset, max_events: int | None) -> EventsOffset:
        while True:
            try:
                return self._plan(start, max_events)
            except StreamBehind:
                raise
            except EventsDropped:
                # They were there a moment ago; now they are a gap.
                logger.info(
                    "events were dropped while a micro-batch was planned; planning it again"
                )

    def _plan(self, start: EventsOffset, max_events: int | None) -> EventsOffset:
        self._require_ours(start)
        if start.initial:
            # Not in `initial_offset`: Spark calls it again when the first micro-batch is repeated,
            # and its result may differ by then.
            self.save_progress(start)
        journal_end, known = self._target or self._journals.end(), start.cursors
        if self._idle is not None and self._idle.start == start and self._idle.end == journal_end:
            return start
        search = self._search(start, journal_end)
        unread, gaps = self._journals.unread(search.cursors, search.end)
        pending = self._gaps.get(start.gaps_key) if start.gaps_key else []
        gaps = [gap for gap in pending if gap not in start.gaps] + gaps
        if not unread and not gaps:
            self._idle = IdleState(start, journal_end, search.end)
            return start
        stream = start.gaps_key or new_id()
        # From now on these journals are kept, although the first commit comes much later.
        new = {name: cursor for name, cursor in unread.items() if name not in known}
        self._reader_cursors.save(new, stream)
        cursors = {**known, **unread}
        advanced = self._advance(list(unread), cursors, search.end, max_events)
        queues = self._without_finished_queues(cursors | advanced, unread)
        self._forgotten = known.keys() - queues.keys()
        self._reader_cursors.forget(self._forgotten)
        offset = EventsOffset(
            started_at=start.started_at,
            cursors=queues,
            # By the next call, the store may have dropped events, and the start would differ.
            batch_start=cursors if start.initial else unread,
            gaps=compact_gaps(start.gaps + gaps),
            gaps_key=stream,
            searched_to=search.end,
            unfinished=[name for name in unread if advanced.get(name) != search.end],
            scope=self._scope,
        )
        return self._with_high_watermark(start, offset)

    def _search(self, start: EventsOffset, end: str) -> SearchRange:
        """Search the journal of all queues, so that idle queues need not be read."""
        active, after = None, self._searched(start)
        if after is not None:
            active = self._journals.active_queues(after, end, len(start.cursors))
        if active is None:
            names = [*start.cursors, *self._journals.queue_names()]
        else:
            names, end = [*start.unfinished, *sorted(active.names)], active.end
        # A queue without a cursor has nothing unread before the furthest one.
        furthest = start.furthest
        return SearchRange({name: start.cursors.get(name, furthest) for name in names}, end)

    def _searched(self, start: EventsOffset) -> str | None:
        """Up to where the journal of all queues was searched already."""
        if self._idle is not None and self._idle.start == start:
            return self._idle.searched_to
        return start.searched_to

    def _without_finished_queues(
        self, cursors: Mapping[str, str], unread: Collection[str]
    ) -> dict[str, str]:
        """All cursors but those of queues that were dropped and are read to their end.

        There may be ever more of these. One that was read further than all others stays: a queue
        that is created again is read from the furthest cursor, which must not go back.
        """
        finished = cursors.keys() - self._journals.existing_queues() - set(unread)
        rest = {name: at for name, at in cursors.items() if name not in finished}
        furthest = read_cursor(max(rest.values(), key=read_cursor, default=JOURNAL_START))
        return {
            name: at for name, at in cursors.items() if name in rest or read_cursor(at) > furthest
        }

    def _with_high_watermark(self, start: EventsOffset, offset: EventsOffset) -> EventsOffset:
        """Record in the store how far the stream reads, if the stream has a reader name."""
        if self._options.reader is None:
            return offset
        watermark_key = start.watermark_key or new_id()
        raise_watermark(self.queues, watermark_key, offset.all_cursors)
        return msgspec.structs.replace(offset, watermark_key=watermark_key)

    def _advance(
        self, unread: list[str], cursors: Mapping[str, str], end: str, max_events: int | None
    ) -> dict[str, str]:
        """How far each queue is read; a limit is shared equally, those furthest behind first."""
        if max_events is None:
            return dict.fromkeys(unread, end)
        advanced: dict[str, str] = {}
        for index, name in enumerate(sorted(unread, key=lambda name: read_cursor(cursors[name]))):
            if max_events == 0:
                break
            share = max(1, max_events // (len(unread) - index))
            advanced[name], read = self._journals.advance(name, cursors[name], end, share)
            max_events -= read
        return advanced

    def _require_ours(self, offset: EventsOffset) -> None:
        """Refuse the checkpoint of another stream, or one that cannot come from this store."""
        if offset.scope != self._scope:
            raise StreamMismatch(
                f"the checkpoint is of {offset.scope}, but this stream reads {self._scope}: "
                "use the options that it started with, or another checkpointLocation"
            )
        require_below_watermark(self.queues, offset.watermark_key, offset.all_cursors)
