"""The relay's record, kept in the target, of jobs that it enqueued there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from ackline.core.errors import KeysChanged
from ackline.core.ids import new_id
from ackline.core.job import NO_OPTIONS, Draft, Record
from ackline.queue import Queue
from ackline.stores.contract import KeyWrite, Receipt, queue_key

RelayedJobs = Mapping[str, float]
"""Jobs by id, with the time of their creation: an id that is enqueued again is another job."""

_encode = msgspec.msgpack.Encoder().encode


class LedgerData(msgspec.Struct, frozen=True, array_like=True):
    """The ledger as the target keeps it, with a stamp that is unique to each write."""

    stamp: str = ""
    jobs: dict[str, float] = {}


_decode = msgspec.msgpack.Decoder(LedgerData).decode


class LedgerChanged(Exception):
    """Another relay has written to the ledger since; nothing was enqueued."""


class Ledger:
    """Jobs that are in the target, but may not be settled in the source yet.

    It is one key beside the target queue, written in the same transaction as the jobs it lists,
    and only if no other relay wrote it since it was read. It has to be read before jobs are
    claimed: then no other relay has enqueued one of them in between, and a job that was enqueued
    before is either listed here or settled in the source, which does not deliver it again. So each
    job is enqueued once, by whichever relay, whatever happened to it in the target: a relay that
    was delayed while another took over is rejected. The key is never deleted, because a missing
    key would reject no relay.
    """

    def __init__(self, source: Queue[Any, Any], target: Queue[Any, Any]) -> None:
        self.read_count = 0
        """How often it was read: only jobs claimed since the last time can be enqueued."""
        self.must_read = True
        """Whether it has to be read before anything can be enqueued."""
        self._source = source
        self._target = target
        self._key: tuple[str, ...] = ()
        self._data = LedgerData()
        self._version = 0

    def read(self) -> LedgerData:
        """Read the ledger as it is now in the target."""
        if not self._key:
            self._key = queue_key(self._target.key, "relay", _name_of(self._source))
        self._fetch()
        self.read_count += 1
        self.must_read = False
        return self._data

    def enqueue(
        self, jobs: Sequence[Record], settled: RelayedJobs, read_count: int
    ) -> list[Receipt]:
        """Enqueue jobs that were claimed since this read, except those that the target has.

        `settled` are jobs that the source will not deliver again: they are removed from the
        ledger. It is written even if there is nothing to enqueue, because the answer shows that
        all earlier writes are as durable as the target makes them.
        """
        if self.must_read or read_count != self.read_count:
            raise LedgerChanged
        known = {id: at for id, at in self._data.jobs.items() if settled.get(id) != at}
        new = [job for job in jobs if known.get(job.id) != job.created_at]
        data = LedgerData(new_id(), known | {job.id: job.created_at for job in jobs})
        # Until another read shows that this was the last write.
        self.must_read = True
        receipts = self._write(data, new)
        self.must_read = self._fetch().stamp != data.stamp
        return receipts

    def _write(self, data: LedgerData, new: Sequence[Record]) -> list[Receipt]:
        write = KeyWrite(key=self._key, value=_encode(data), version=self._version)
        drafts = list(drafts_of(new))
        self._target.record_callbacks(drafts)
        try:
            return self._target.store.enqueue(self._target.key, drafts, [write])
        except KeysChanged:
            raise LedgerChanged from None

    def _fetch(self) -> LedgerData:
        found = self._target.store.read_keys(self._target.key.tenant, self._key, 1)
        self._data = _decode(found[0].value) if found else LedgerData()
        self._version = found[0].version if found else 0
        return self._data


def drafts_of(jobs: Iterable[Record]) -> Iterable[Draft]:
    """Drafts of the same jobs: with their id, kind, payload, priority and options."""
    options = NO_OPTIONS
    for job in jobs:
        if job.options != options:
            # Consecutive jobs with equal options share the object: stores write such jobs together.
            options = job.options
        yield Draft(job.id, job.kind, job.payload, job.priority, options=options)


def _name_of(source: Queue[Any, Any]) -> str:
    """The name under which targets know the source, whatever URL it was opened with."""
    key, store, tenant = queue_key(source.key, "name"), source.store, source.key.tenant
    while True:
        for found in store.read_keys(tenant, key, 1):
            return found.value.decode()
        store.write_keys(tenant, [KeyWrite(key=key, value=new_id().encode(), version=0)])
