"""How far a named stream has read each queue, so that the store keeps the events after that."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Collection, Mapping, Set

from ackline.core.ids import new_id
from ackline.queue.journal.saved_cursor import (
    ALL_QUEUES,
    SavedCursor,
    cursor_write,
    decode_saved_cursor,
    reader_keys,
)
from ackline.queues import Queues
from ackline.spark.streams.events.offset import EventsOffset
from ackline.stores.contract import KeyWrite, find_key

logger = logging.getLogger("ackline")

MAX_BATCH = 500
"""Cursors per round trip."""

STREAM_PREFIX = "stream "
"""The prefix of a stream's name in the field `saved_by` of a cursor."""


class ReaderCursors:
    """The cursors of one reader; without a name nothing is saved."""

    def __init__(self, queues: Queues, name: str | None) -> None:
        self._queues = queues
        self._name = name
        self._by = new_id()
        self._saved: dict[str, str] = {}

    def save_offset(
        self, offset: EventsOffset, queue: str | None = None, forgotten: Set[str] = frozenset()
    ) -> None:
        """Save that everything before this offset is done, so that the journal need not keep it.

        `queue` is the only one that the stream reads, `forgotten` are those to leave out.
        """
        cursors = {name: at for name, at in offset.cursors.items() if name not in forgotten}
        if queue is None:
            cursors[ALL_QUEUES] = offset.furthest
        self.warn_if_shared(queue or ALL_QUEUES, offset.gaps_key)
        self.save(cursors, offset.gaps_key)

    def save(self, cursors: Mapping[str, str], stream: str) -> None:
        """Save that everything before these cursors is done; only changed ones are written.

        What was saved under this name before does not matter: the checkpoint has the position.
        """
        if self._name is None:
            return
        by = STREAM_PREFIX + stream if stream else self._by
        changed = [(queue, at) for queue, at in cursors.items() if self._saved.get(queue) != at]
        now = self._queues.store.now() if changed else 0.0
        for start in range(0, len(changed), MAX_BATCH):
            chunk = changed[start : start + MAX_BATCH]
            writes = [
                cursor_write(queue, self._name, SavedCursor(at, now, by)) for queue, at in chunk
            ]
            self._queues.store.write_keys(self._queues.tenant, writes)
            self._saved.update(chunk)

    def forget(self, queues: Collection[str]) -> None:
        """Delete the cursors of queues that were read to their end."""
        if self._name is None:
            return
        writes = [KeyWrite(key=(*reader_keys(queue), self._name), value=None) for queue in queues]
        for start in range(0, len(writes), MAX_BATCH):
            self._queues.store.write_keys(self._queues.tenant, writes[start : start + MAX_BATCH])
        for queue in queues:
            self._saved.pop(queue, None)

    def warn_if_shared(self, queue: str, stream: str) -> None:
        """Warn if another stream uses this reader name: the journal is kept for only one."""
        if self._name is None or queue in self._saved:
            return
        found = self._find(queue, self._name)
        if (
            found is None
            or not found.saved_by.startswith(STREAM_PREFIX)
            or found.saved_by == f"{STREAM_PREFIX}{stream}"
        ):
            return
        logger.warning(
            "another stream or lake saved its cursor under the reader name %r at %s UTC, and this "
            "one replaces it: the journal is no longer kept for the other. If both are in use, "
            "give each its own name: the option reader, or `ackline pipeline run --reader NAME`",
            *(self._name, f"{datetime.datetime.fromtimestamp(found.saved_at, datetime.UTC):%F %T}"),
        )

    def _find(self, queue: str, name: str) -> SavedCursor | None:
        entry = find_key(self._queues.store, self._queues.tenant, (*reader_keys(queue), name))
        return None if entry is None else decode_saved_cursor(entry.value)
