"""The journal's entries: what happened to which job, packed by the batch."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence

import msgspec

from ackline.job import QueueKey, State


class Act(enum.StrEnum):
    """One word for each act; the same word in events, commands, routes and buttons."""

    ENQUEUE = "enqueue"
    CLAIM = "claim"
    COMPLETE = "complete"
    FAIL = "fail"
    SNOOZE = "snooze"
    RELEASE = "release"
    EXPIRE = "expire"
    EXTEND = "extend"
    PROGRESS = "progress"
    PROMOTE = "promote"
    CANCEL = "cancel"
    REQUEST_CANCEL = "request_cancel"
    REDRIVE = "redrive"
    EDIT = "edit"
    MOVE = "move"
    PRUNE = "prune"
    PURGE = "purge"
    PAUSE = "pause"
    RESUME = "resume"
    CONFIGURE = "configure"
    DROP = "drop"


TELLS_PRIORITY = frozenset({Act.ENQUEUE, Act.EDIT, Act.REDRIVE})
"""Acts whose entries have the job's priority, as its arrival from another queue has."""


class Entry(msgspec.Struct, frozen=True, gc=False, array_like=True, omit_defaults=True):
    """One line of a journal batch; `source` and `to` are None for a job not (or no longer) there.

    `id` is empty for an act on the whole queue. `priority` is told where a job may have got one:
    see `TELLS_PRIORITY`. None is unknown, as in entries of earlier versions. `callback` is the URL
    that the job named, where its life ends: who calls it needs no look at what may be gone by then.
    """

    act: Act
    id: str
    kind: str
    source: State | None
    to: State | None
    attempt: int = 0
    token: int = 0
    worker: str = ""
    note: str = ""
    by: str = ""
    priority: int | None = None
    callback: str | None = None


class Event(msgspec.Struct, frozen=True, gc=False):
    """An entry with its place in the journal; pass `cursor` back to read on from here."""

    cursor: str
    at: float
    queue: QueueKey
    act: Act
    id: str
    kind: str
    source: State | None
    to: State | None
    attempt: int
    token: int
    worker: str
    note: str
    by: str
    priority: int | None = None
    callback: str | None = None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Entry]).decode
_skim = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode


def pack(entries: Sequence[Entry]) -> bytes:
    """Encode one batch for the journal."""
    return _encode(entries)


def unpack(
    batch: int, at: float, queue: QueueKey, packed: bytes, *, skip: int = 0
) -> Iterable[Event]:
    """Decode one batch into events, leaving out the first `skip`."""
    for index, entry in enumerate(_decode(packed)):
        if index >= skip:
            cursor = make_cursor(batch, index + 1)
            yield Event(cursor, at, queue, *msgspec.structs.astuple(entry))


def count(packed: bytes) -> int:
    """How many entries a packed batch has; they are not decoded for it."""
    return len(_skim(packed))


def unseen(batch: int, size: int, reader: tuple[int, int] | None) -> int:
    """How many entries of a batch come after the place of a reader; without a reader, none.

    >>> unseen(7, 3, (7, 1)), unseen(8, 3, (7, 1)), unseen(6, 3, (7, 1))
    (2, 3, 0)
    """
    if reader is None or (batch, size) <= reader:
        return 0
    return size - reader[1] if batch == reader[0] else size


def make_cursor(batch: int, used: int) -> str:
    """The cursor after the first `used` entries of a batch."""
    return f"{batch}.{used}"


def read_cursor(cursor: str | None) -> tuple[int, int]:
    """The batch and how many of its entries a reader has had; None is before everything."""
    if not cursor:
        return (0, 0)
    batch, _, used = cursor.partition(".")
    if not (batch.isdecimal() and used.isdecimal() and cursor.isascii() and len(used) < 19):
        raise ValueError(f"{cursor!r} is not a journal cursor")
    return (int(batch), int(used))
