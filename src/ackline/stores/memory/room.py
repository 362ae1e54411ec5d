"""All queues of a memory store, and their journal."""

from __future__ import annotations

from ackline.events import Batch, Entry, make_cursor
from ackline.job import QueueKey
from ackline.stores.base import Key, Subject
from ackline.stores.memory.lines import Shelf
from ackline.stores.memory.listen import Listeners
from ackline.stores.shared.apply import topics_of
from ackline.stores.shared.groups import LeftGroups


class Room:
    """The data of one memory store; its caller holds the lock."""

    def __init__(self, listeners: Listeners) -> None:
        self._listeners = listeners
        self.news: set[Subject] = set()
        """What listeners are to be told when the lock is released."""
        self.shelves: dict[QueueKey, Shelf] = {}
        self.keys: dict[tuple[str, tuple[str, ...]], Key] = {}
        self._last_job = 0
        self._last_batch = 0
        self._last_version = 0

    def shelf(self, queue: QueueKey) -> Shelf:
        """The shelf of a queue; if there is none, an empty one that is not kept."""
        return self.shelves.get(queue) or Shelf(queue)

    def make_shelf(self, queue: QueueKey) -> Shelf:
        """The shelf of a queue, made if need be."""
        shelf = self.shelves.get(queue)
        if shelf is None:
            shelf = self.shelves[queue] = Shelf(queue)
        shelf.dropped_queue = False
        return shelf

    def write_journal(self, shelf: Shelf, at: float, entries: list[Entry]) -> None:
        """Append one batch, in the same step as the changes that it reports."""
        if entries:
            self._last_batch += 1
            shelf.journal.append(Batch(self._last_batch, at, shelf.key, entries))
            shelf.events += len(entries)
            if self._listeners.any:
                self.news.update((shelf.key, topic) for topic in topics_of(entries))

    def leave_groups(self, shelf: Shelf, left: LeftGroups) -> None:
        """Count ended leases, and let parked jobs of these groups stand in line again."""
        for group, count in left.items():
            shelf.running[group] = running = shelf.running.get(group, 0) - count
            if running <= 0:
                del shelf.running[group]
            if shelf.unpark(group):
                self.news.add((shelf.key, "ready"))

    def journal_end(self) -> str:
        """The cursor after everything that has happened."""
        return make_cursor(self._last_batch + 1, 0)

    def next_job(self) -> int:
        self._last_job += 1
        return self._last_job

    def put_key(self, tenant: str, key: tuple[str, ...], value: bytes) -> None:
        """Set a key under a version that was never used before."""
        self._last_version += 1
        self.keys[tenant, key] = Key(key=key, value=value, version=self._last_version)
