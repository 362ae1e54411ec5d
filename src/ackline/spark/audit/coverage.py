"""Which events a lake and its store have together, and which neither has."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ackline.core.errors import EventsDropped
from ackline.core.events import make_cursor, read_cursor
from ackline.core.job import QueueKey
from ackline.queues import Queues
from ackline.spark.journal.gaps import Gap, find_gap
from ackline.spark.journal.journals import JOURNAL_START, cursor_before
from ackline.spark.lake.lake import Lake
from ackline.spark.streams.events.high_watermark import require_below_watermark
from ackline.spark.streams.events.offset import OLDEST


class QueueSpan(msgspec.Struct, frozen=True):
    """The first and the last event that a lake has of one queue."""

    first: str
    first_at: float
    last: str


class Coverage:
    """How far the events of some queues reach, in a lake and after that in its store."""

    def __init__(self, queues: Queues, lake: Lake, spans: Mapping[str, QueueSpan]) -> None:
        self._store, self._tenant = queues.store, queues.tenant
        self._end = queues.info().cursor
        self._mark, self._gaps = lake.require(), lake.gaps
        self._some_dropped = any(batch.dropped and batch.events for batch in lake.log.batches)
        self._spans = spans
        require_below_watermark(queues, None, (one.last for one in spans.values()))

    @property
    def incomplete_queues(self) -> set[str]:
        """Queues of which the lake is known to lack events, even if it has none of them."""
        first = self._mark.first_events
        truncated = {queue for queue, cursor in first.items() if cursor is None}
        return truncated | {gap.queue for gap in self._gaps}

    def start(self, names: list[str], end: str) -> str:
        """From where to read the store: just before the first event that the lake lacks.

        If a queue has dropped events after that, all that the store has: the lake may have more of
        that queue.
        """
        keys = [QueueKey(self._tenant, name) for name in names]
        try:
            pages = [self._store.events(key, self._last(key.name), 1) for key in keys]
            firsts = [cursor_before(page[0]) for page in pages if page]
            start = min([*firsts, end], key=read_cursor)
            for key in keys:
                self._store.events(key, start, 1)
        except EventsDropped:
            return OLDEST
        return start

    def gaps(self, queue: str) -> list[Gap]:
        """What is missing before the lake, in it, and between it and the store."""
        key = QueueKey(self._tenant, queue)
        skipped = [gap for gap in self._gaps if gap.queue == queue]
        since = find_gap(self._store, key, self._last(queue))
        found = [gap for gap in (self._beginning(key), *skipped, since) if gap is not None]
        if not found and queue in self.incomplete_queues:
            # All of it is gone: its beginning before the lake was made, the rest since.
            return [Gap(queue=queue, after=JOURNAL_START, until=self._end)]
        return found

    def _last(self, queue: str) -> str:
        kept = self._spans.get(queue)
        return JOURNAL_START if kept is None else kept.last

    def _beginning(self, key: QueueKey) -> Gap | None:
        kept = self._spans.get(key.name)
        if kept is None or self._is_whole(key, kept):
            return None
        until = make_cursor(read_cursor(kept.first)[0], 0)
        return Gap(queue=key.name, after=JOURNAL_START, until=until, retained_from=kept.first_at)

    def _is_whole(self, key: QueueKey, kept: QueueSpan) -> bool:
        """Whether the first event that the lake has of a queue is the queue's first ever."""
        first = self._mark.first_events
        if key.name in first:
            return first[key.name] == kept.first
        # The lake was created before this queue, so it had all of its events.
        return not self._some_dropped
