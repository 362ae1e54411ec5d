"""Apply transitions to jobs in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ackline.core.job import Failure, Options, QueueKey, State
from ackline.core.lifecycle import Transition, Verdict
from ackline.stores.memory.data import QueueData, StoreData, StoredJob
from ackline.stores.shared.apply import AppliedChange, ApplyPlan


def apply(
    store: StoreData, queue: QueueKey, transitions: Sequence[Transition], now: float
) -> list[Verdict]:
    """Apply each transition whose guard holds."""
    data = store.queue(queue)
    batch = _ApplyPlan(store, data, len(transitions), now)
    for index, transition in enumerate(transitions):
        batch.apply(index, transition)
    store.write_journal(data, now, batch.entries())
    for target, entry in batch.moved_in:
        store.write_journal(store.ensure_queue(target), now, [entry])
    store.free_groups(data, batch.freed_groups)
    return batch.verdicts


class _ApplyPlan(ApplyPlan[StoredJob]):
    def __init__(self, store: StoreData, data: QueueData, size: int, now: float) -> None:
        super().__init__(data.key, data.settings, size, now)
        self._store = store
        self._data = data
        self._options: dict[int, Options] = {}

    def find(self, id: str) -> StoredJob | None:
        return self._data.jobs.get(id)

    def payload_of(self, job: StoredJob) -> bytes:
        return job.payload

    def result_and_history(self, job: StoredJob) -> tuple[bytes | None, Sequence[Failure]]:
        return job.result, job.history

    def options_of(self, _jobs: Sequence[int]) -> Mapping[int, Options]:
        return self._options

    def write(self, job: StoredJob, transition: Transition, change: AppliedChange) -> None:
        if change.attempt is not None:
            job.add_attempt(change.attempt)
        if transition.edit is not None and transition.edit.payload is not None:
            job.payload = transition.edit.payload
        if transition.has_callback:
            self._options[job.num] = job.options
        data, queued = self._data, State.QUEUED
        stays_queued = change.source is queued and job.state is queued
        if stays_queued and job.job_list is not data.ready.get(job.kind):
            data.park(job)
        else:
            data.set_state(job, job.state, job.at)

    def write_key(self, key: tuple[str, ...], job: StoredJob) -> None:
        self._store.put_key(self.queue.tenant, key, job.payload)

    def move(self, job: StoredJob, target: QueueKey) -> bool:
        if self._store.queue(target).find(job.id, self.now) is not None:
            return False
        target_data = self._store.ensure_queue(target)
        self._data.drop(job)
        if (expired := target_data.jobs.get(job.id)) is not None:
            target_data.drop(expired)
        target_data.add_moved(job)
        target_data.last_token = max(target_data.last_token, job.token)
        target_data.set_state(job, job.state, job.at)
        return True
