"""Apply decided transitions to jobs in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ackline.job import Failure, Options, QueueKey, State
from ackline.lifecycle import Transition, Verdict
from ackline.stores.memory.lines import Shelf, StoredJob
from ackline.stores.memory.room import Room
from ackline.stores.shared.apply import ApplyBatch, Change


def apply(
    room: Room, queue: QueueKey, transitions: Sequence[Transition], now: float
) -> list[Verdict]:
    """Apply each transition whose guard holds."""
    shelf = room.shelf(queue)
    batch = _Batch(room, shelf, len(transitions), now)
    for index, transition in enumerate(transitions):
        batch.apply(index, transition)
    room.write_journal(shelf, now, batch.entries())
    for target, arrival in batch.arrivals:
        room.write_journal(room.make_shelf(target), now, [arrival])
    room.leave_groups(shelf, batch.left)
    return batch.verdicts


class _Batch(ApplyBatch[StoredJob]):
    def __init__(self, room: Room, shelf: Shelf, size: int, now: float) -> None:
        super().__init__(shelf.key, shelf.settings, size, now)
        self._room = room
        self._shelf = shelf
        self._options: dict[int, Options] = {}

    def find(self, id: str) -> StoredJob | None:
        return self._shelf.jobs.get(id)

    def payload_of(self, job: StoredJob) -> bytes:
        return job.payload

    def ends_of(self, job: StoredJob) -> tuple[bytes | None, Sequence[Failure]]:
        return job.result, job.history

    def options_of(self, _jobs: Sequence[int]) -> Mapping[int, Options]:
        return self._options

    def write(self, job: StoredJob, transition: Transition, change: Change) -> None:
        if change.ended is not None:
            job.remember(change.ended)
        if transition.edit is not None and transition.edit.payload is not None:
            job.payload = transition.edit.payload
        if transition.calls_back:
            self._options[job.num] = job.options
        shelf, queued = self._shelf, State.QUEUED
        stays = change.source is queued and job.state is queued
        if stays and job.line is not shelf.ready.get(job.kind):
            shelf.park(job)
        else:
            shelf.stand(job, job.state, job.at)

    def put_key(self, key: tuple[str, ...], job: StoredJob) -> None:
        self._room.put_key(self.queue.tenant, key, job.payload)

    def move(self, job: StoredJob, target: QueueKey) -> bool:
        if self._room.shelf(target).find(job.id, self.now) is not None:
            return False
        there = self._room.make_shelf(target)
        self._shelf.drop(job)
        if (old := there.jobs.get(job.id)) is not None:
            there.drop(old)
        there.take_in(job)
        there.last_token = max(there.last_token, job.token)
        there.stand(job, job.state, job.at)
        return True
