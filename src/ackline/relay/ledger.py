"""The fence of a relay: what the target has got already, kept in the target itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from ackline.errors import KeysChanged
from ackline.ids import new_id
from ackline.job import NO_OPTIONS, Draft, Record
from ackline.queue import Queue
from ackline.stores.base import KeyWrite, Receipt, key_beside

Passages = Mapping[str, float]
"""Jobs by id, with the time of their creation: who enqueues an id anew makes another job."""

_encode = msgspec.msgpack.Encoder().encode


class Page(msgspec.Struct, frozen=True, array_like=True):
    """The ledger as the target keeps it, with a stamp that no other writing has."""

    stamp: str = ""
    open: dict[str, float] = {}


_decode = msgspec.msgpack.Decoder(Page).decode


class Overtaken(Exception):
    """Another relay has written since; nothing was passed on."""


class Ledger:
    """Jobs that are in the target, but perhaps not settled in the source yet.

    It is one key beside the target queue, written in the same step as the jobs it tells of, and
    only if nobody else wrote it since it was read. To be read before jobs are claimed: then no
    other relay has passed on one of them in between, and what was passed on before is either
    told here or settled in the source, which hands it out no more. So each job is passed on once,
    whatever has become of it in the target, and by whomever: a relay that was held up while
    another went on is refused. The key is never deleted, for one that is gone fences off nobody.
    """

    def __init__(self, source: Queue[Any, Any], target: Queue[Any, Any]) -> None:
        self.reading = 0
        """Counts how often it was read: jobs can be passed on if claimed since the last time."""
        self.broken = True
        """Whether it has to be read before anything can be passed on."""
        self._source = source
        self._target = target
        self._key: tuple[str, ...] = ()
        self._page = Page()
        self._version = 0

    def read(self) -> Page:
        """What it tells now, whoever wrote it."""
        if not self._key:
            self._key = key_beside(self._target.key, "relay", _name_of(self._source))
        self._fetch()
        self.reading += 1
        self.broken = False
        return self._page

    def pass_on(self, jobs: Sequence[Record], settled: Passages, reading: int) -> list[Receipt]:
        """Enqueue jobs that were claimed since this reading, but for those the target has got.

        `settled` are jobs that the source will not hand out again: they need not be known any
        more. The ledger is written even if there is nothing to enqueue, because the answer says
        that all before it is as safe as the target makes it.
        """
        if self.broken or reading != self.reading:
            raise Overtaken
        known = {id: made for id, made in self._page.open.items() if settled.get(id) != made}
        new = [job for job in jobs if known.get(job.id) != job.created_at]
        page = Page(new_id(), known | {job.id: job.created_at for job in jobs})
        # Until it is seen that this was the last to write.
        self.broken = True
        receipts = self._write(page, new)
        self.broken = self._fetch().stamp != page.stamp
        return receipts

    def _write(self, page: Page, new: Sequence[Record]) -> list[Receipt]:
        write = KeyWrite(key=self._key, value=_encode(page), version=self._version)
        drafts = list(drafts_of(new))
        self._target.announce(drafts)
        try:
            return self._target.store.enqueue(self._target.key, drafts, [write])
        except KeysChanged:
            raise Overtaken from None

    def _fetch(self) -> Page:
        found = self._target.store.read_keys(self._target.key.tenant, self._key, 1)
        self._page = _decode(found[0].value) if found else Page()
        self._version = found[0].version if found else 0
        return self._page


def drafts_of(jobs: Iterable[Record]) -> Iterable[Draft]:
    """Jobs as they are enqueued elsewhere: the same id, kind, payload, priority and options."""
    options = NO_OPTIONS
    for job in jobs:
        if job.options != options:
            # Neighbours share the object, for stores write alike jobs together.
            options = job.options
        yield Draft(job.id, job.kind, job.payload, job.priority, options=options)


def _name_of(source: Queue[Any, Any]) -> str:
    """What the source is known by in targets, under whatever URL it was opened."""
    key, store, tenant = key_beside(source.key, "name"), source.store, source.key.tenant
    while True:
        for found in store.read_keys(tenant, key, 1):
            return found.value.decode()
        store.write_keys(tenant, [KeyWrite(key=key, value=new_id().encode(), version=0)])
