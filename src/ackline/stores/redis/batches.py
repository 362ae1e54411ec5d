"""How Redis keeps one batch of the journal: runs of entries that have most fields in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, count, repeat
from typing import Any

import msgspec

from ackline.events import Act, Entry, Unread
from ackline.stores.shared.packed import MANY, Alike, first_row
from ackline.stores.shared.records import STATES

_ACTS = {act.value: act for act in Act}
_STATES = (*STATES, None)
"""By their codes; -1 is no state, so None is the last."""

_PRIORITIES = {ord("-"): None} | {ord(str(priority)): priority for priority in range(10)}

Fields = Mapping[bytes, bytes]
"""The fields of a stream entry: `e` has a time and runs; for `p` and `c` see below."""


class _Run(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Neighbouring entries; kinds and attempts are one value for all, or a list with one each."""

    act: str
    source: int
    to: int
    token: int
    worker: str
    note: str
    by: str
    kinds: str | list[str]
    attempts: int | list[int]
    ids: msgspec.Raw
    moved: tuple[str | None, str | None] = (None, None)
    """The queues that the job of a move has left and entered."""

    def entries(
        self, ids: list[str], priorities: Iterator[int | None], callbacks: Iterator[str | None]
    ) -> Iterator[Entry]:
        """An entry for each id; takes the next of the batch's priorities and callbacks for each."""
        return map(
            Entry,
            repeat(_ACTS[self.act]),
            ids,
            _of_each(self.kinds),
            repeat(_STATES[self.source]),
            repeat(_STATES[self.to]),
            _of_each(self.attempts),
            repeat(self.token),
            repeat(self.worker),
            repeat(self.note),
            repeat(self.by),
            priorities,
            callbacks,
            repeat(self.moved[0]),
            repeat(self.moved[1]),
        )


_decode: Callable[[bytes], list[Any]] = msgspec.msgpack.Decoder(list[float | _Run]).decode
_decode_callbacks = msgspec.msgpack.Decoder(list[Any]).decode
_decode_ids = msgspec.msgpack.Decoder(list[str]).decode
_decode_id = msgspec.msgpack.Decoder(str).decode


def read_batch(fields: Fields, size: int) -> tuple[float, Sequence[Entry]]:
    """When a batch was written, and its entries; a large batch's are made when first looked at."""
    at, *runs = _decode(fields[b"e"])
    packed = _Packed(runs, fields)
    return at, Unread(packed, range(size)) if size >= MANY else packed.unpack()


class _Packed(msgspec.Struct, frozen=True, gc=False):
    runs: list[_Run]
    fields: Fields

    def unpack(self) -> list[Entry]:
        priorities, callbacks = _priorities(self.fields), _callbacks(self.fields)
        runs = (run.entries(_decode_ids(run.ids), priorities, callbacks) for run in self.runs)
        return [*chain.from_iterable(runs)]

    def alike(self) -> list[Alike]:
        if b"c" in self.fields:
            return []
        all_alike: list[Alike] = []
        digits = self.fields.get(b"p", b"")
        for run in self.runs:
            alike = _look_at(run, digits)
            if alike is None:
                return []
            all_alike.append(alike)
            digits = digits[len(alike) :]
        return all_alike


def _look_at(run: _Run, digits: bytes) -> Alike | None:
    even = first_row(bytes(run.ids), _decode_id)
    if even is None or isinstance(run.kinds, list) or isinstance(run.attempts, list):
        return None
    id, rows, width = even
    priorities = digits[: len(rows) // width].ljust(len(rows) // width, b"-")
    if priorities.count(priorities[:1]) < len(priorities):
        return None
    [entry] = run.entries([id], map(_PRIORITIES.get, priorities), repeat(None))
    return Alike(entry, rows[:width], rows, width, slice(width - len(id.encode()), width))


def _of_each(values: Any) -> Iterator[Any]:
    return iter(values) if isinstance(values, list) else repeat(values)


def _priorities(fields: Fields) -> Iterator[int | None]:
    """The field `p` has a digit for each entry; the last ones, or all, may be left out."""
    return chain(map(_PRIORITIES.get, fields.get(b"p", b"")), repeat(None))


def _callbacks(fields: Fields) -> Iterator[str | None]:
    """The field `c` has the entry's number and the URL of each of the few jobs that call back."""
    if b"c" not in fields:
        return repeat(None)
    flat = _decode_callbacks(fields[b"c"])
    return map(dict(zip(flat[::2], flat[1::2], strict=True)).get, count(1))
