"""The fence of a relay: what the target has got already, kept in the target itself."""

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
    """Another relay has written since; nothing was passed on."""


class Ledger:
    """Jobs that are in the target, but perhaps not settled in the source yet.

    It is one key beside the target queue, written in the same step as the jobs it lists, and
    only if nobody else wrote it since it was read. Read it before you claim jobs: then no other
    relay has passed on one of them in between, and a job that was passed on before is either
    listed here or settled in the source, which hands it out no more. So each job is passed on
    once, by whichever relay, whatever has become of it in the target: a relay that was held up
    while another went on is refused. The key is never deleted: a missing key fences off nobody.
    """

    def __init__(self, source: Queue[Any, Any], target: Queue[Any, Any]) -> None:
        self.read_count = 0
        """How often it was read: jobs can be passed on if they were claimed since the last time."""
        self.must_read = True
        """Whether it has to be read before anything can be passed on."""
        self._source = source
        self._target = target
        self._key: tuple[str, ...] = ()
        self._data = LedgerData()
        self._version = 0

    def read(self) -> LedgerData:
        """The ledger as it is now, whoever wrote it."""
        if not self._key:
            self._key = queue_key(self._target.key, "relay", _name_of(self._source))
        self._fetch()
        self.read_count += 1
        self.must_read = False
        return self._data

    def enqueue(self, jobs: Sequence[Record], settled: RelayedJobs, reading: int) -> list[Receipt]:
        """Enqueue jobs that were claimed since this reading, except those the target already has.

        `settled` are jobs that the source will not hand out again: they need not be listed any
        more. The ledger is written even if there is nothing to enqueue, because the answer says
        that all before it is as safe as the target makes it.
        """
        if self.must_read or reading != self.read_count:
            raise LedgerChanged
        known = {id: at for id, at in self._data.jobs.items() if settled.get(id) != at}
        new = [job for job in jobs if known.get(job.id) != job.created_at]
        page = LedgerData(new_id(), known | {job.id: job.created_at for job in jobs})
        # Until another read shows that this was the last write.
        self.must_read = True
        receipts = self._write(page, new)
        self.must_read = self._fetch().stamp != page.stamp
        return receipts

    def _write(self, page: LedgerData, new: Sequence[Record]) -> list[Receipt]:
        write = KeyWrite(key=self._key, value=_encode(page), version=self._version)
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
    """Jobs as they are enqueued elsewhere: the same id, kind, payload, priority and options."""
    options = NO_OPTIONS
    for job in jobs:
        if job.options != options:
            # Neighbours with equal options share the object: stores write such jobs together.
            options = job.options
        yield Draft(job.id, job.kind, job.payload, job.priority, options=options)


def _name_of(source: Queue[Any, Any]) -> str:
    """The name by which targets know the source, whatever URL it was opened by."""
    key, store, tenant = queue_key(source.key, "name"), source.store, source.key.tenant
    while True:
        for found in store.read_keys(tenant, key, 1):
            return found.value.decode()
        store.write_keys(tenant, [KeyWrite(key=key, value=new_id().encode(), version=0)])
