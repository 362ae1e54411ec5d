"""Apply decided transitions to jobs in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ackline.job import Failure, Options, QueueKey, State
from ackline.lifecycle import Transition, Verdict
from ackline.stores.memory.data import QueueData, StoreData, StoredJob
from ackline.stores.shared.apply import ApplyBatch, Change


def apply(
    store: StoreData, queue: QueueKey, transitions: Sequence[Transition], now: float
) -> list[Verdict]:
    """Apply each transition whose guard holds."""
    data = store.queue(queue)
    batch = _Batch(store, data, len(transitions), now)
    for index, transition in enumerate(transitions):
        batch.apply(index, transition)
    store.write_journal(data, now, batch.entries())
    for target, arrival in batch.arrivals:
        store.write_journal(store.make_queue(target), now, [arrival])
    store.leave_groups(data, batch.left)
    return batch.verdicts


class _Batch(ApplyBatch[StoredJob]):
    def __init__(self, store: StoreData, data: QueueData, size: int, now: float) -> None:
        super().__init__(data.key, data.settings, size, now)
        self._store = store
        self._data = data
        self._options: dict[int, Options] = {}

    def find(self, id: str) -> StoredJob | None:
        return self._data.jobs.get(id)

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
        data, queued = self._data, State.QUEUED
        stays = change.source is queued and job.state is queued
        if stays and job.line is not data.ready.get(job.kind):
            data.park(job)
        else:
            data.stand(job, job.state, job.at)

    def put_key(self, key: tuple[str, ...], job: StoredJob) -> None:
        self._store.put_key(self.queue.tenant, key, job.payload)

    def move(self, job: StoredJob, target: QueueKey) -> bool:
        if self._store.queue(target).find(job.id, self.now) is not None:
            return False
        there = self._store.make_queue(target)
        self._data.drop(job)
        if (old := there.jobs.get(job.id)) is not None:
            there.drop(old)
        there.take_in(job)
        there.last_token = max(there.last_token, job.token)
        there.stand(job, job.state, job.at)
        return True
