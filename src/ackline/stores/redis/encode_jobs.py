"""Encodes and decodes jobs; `lua/lib/job.lua` has the other side."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import msgspec

from ackline.core.config import DEFAULT_SETTINGS, QueueSettings
from ackline.core.events import Act
from ackline.core.job import NO_OPTIONS, Draft, Failure, Options, Record, State
from ackline.stores.contract import KeyWrite
from ackline.stores.shared.key_encoding import encode_key
from ackline.stores.shared.record_encoding import (
    SETTLING_ACTS,
    STATES_BY_CODE,
    decode_failure,
    decode_options,
    encode_options,
    encode_settings,
    make_record,
)

NO_JOB, REFUSED = -1, 10
"""Codes of a script's verdict: NO_JOB if there is no such job, the code of the job's state if the
transition was applied, that code plus REFUSED if it was not."""


def expand_runs(runs: Sequence[int]) -> list[int]:
    """A verdict for each transition, from a script's flat pairs of a verdict and its count."""
    verdicts: list[int] = []
    for verdict, count in zip(runs[::2], runs[1::2], strict=True):
        verdicts += [verdict] * count
    return verdicts


CANCEL_REQUESTED = 1
"""The flag of a job with a cancel request."""

_CREATED, _NUMBER = struct.Struct(">d"), struct.Struct(">Q")
_HEAD = struct.Struct(">BdH")
_LENGTH, _LONG = struct.Struct(">H"), struct.Struct(">I")
_STATE = struct.Struct(">BBBdBIQd")
_ATTEMPT = struct.Struct(">IddH")

_encode = msgspec.msgpack.Encoder().encode


# --- bodies ---


def body_head(kind: str, priority: int, options: Options) -> bytes:
    """The part of a body between the creation time and the payload."""
    name, group = kind.encode(), (options.group or "").encode()
    packed = encode_options(options) or b""
    return b"".join(
        (
            _HEAD.pack(priority, options.lease or 0.0, len(name)),
            name,
            _LENGTH.pack(len(group)),
            group,
            _LONG.pack(len(packed)),
            packed,
        )
    )


class BodyDecoder:
    """The fields of the body that was read last.

    Neighbouring jobs mostly differ only in their payload, so the decoded fields before it are
    reused: decoding them for each job would take as long as everything else about a claim.
    """

    __slots__ = ("_head", "_packed", "created_at", "kind", "options", "payload", "priority")

    def __init__(self) -> None:
        self._head = self._packed = self.payload = b""
        self.created_at = 0.0
        self.kind = ""
        self.priority = 0
        self.options = NO_OPTIONS

    def read(self, packed: bytes) -> None:
        """Decode this body."""
        self._packed = packed
        (self.created_at,) = _CREATED.unpack_from(packed)
        head = self._head
        if not head or not packed.startswith(head, _CREATED.size):
            head = self._read_head(packed)
        self.payload = packed[_CREATED.size + len(head) : -_NUMBER.size]

    @property
    def number(self) -> int:
        (number,) = _NUMBER.unpack_from(self._packed, len(self._packed) - _NUMBER.size)
        return int(number)

    def _read_head(self, packed: bytes) -> bytes:
        self.priority, _, size = _HEAD.unpack_from(packed, _CREATED.size)
        at = _CREATED.size + _HEAD.size
        self.kind = packed[at : at + size].decode()
        at += size
        at += _LENGTH.size + _LENGTH.unpack_from(packed, at)[0]
        (size,) = _LONG.unpack_from(packed, at)
        at += _LONG.size
        self.options = decode_options(packed[at : at + size])
        self._head = packed[_CREATED.size : at + size]
        return self._head


def leased_record(
    id: bytes,
    body: BodyDecoder,
    attempts: int,
    flags: int,
    token: int,
    worker: str,
    started: float,
    deadline: float,
) -> Record:
    """A job as its worker gets it, by a claim or by direct delivery."""
    return Record(
        id.decode(),
        body.kind,
        State.PROCESSING,
        body.payload,
        body.priority,
        body.options,
        attempts,
        body.created_at,
        token,
        worker,
        started,
        deadline,
        None,
        None,
        None,
        bool(flags & CANCEL_REQUESTED),
    )


def pack_drafts(drafts: Sequence[Draft]) -> list[bytes | str | int]:
    """Arguments of a script: neighbours that differ only in id and payload are one run."""
    packed: list[bytes | str | int] = []
    start = 0
    while start < len(drafts):
        first = drafts[start]
        end = start + 1
        while end < len(drafts) and _same_but_payload(first, drafts[end]):
            end += 1
        options = first.options
        head = body_head(first.kind, first.priority, options)
        packed += (first.kind, first.priority, options.group or "", repr(first.delay))
        packed.append("" if first.run_at is None else repr(first.run_at))
        packed.append("" if first.replaces is None else _encode(sorted(first.replaces)))
        packed.append(end - start)
        packed += [draft.id for draft in drafts[start:end]]
        packed += [head + draft.payload for draft in drafts[start:end]]
        start = end
    return packed


def _same_but_payload(one: Draft, other: Draft) -> bool:
    return (
        one.kind == other.kind
        and one.options is other.options
        and one.priority == other.priority
        and one.delay == other.delay
        and one.run_at == other.run_at
        and one.replaces == other.replaces
    )


def pack_writes(writes: Sequence[KeyWrite]) -> list[bytes | str | int]:
    """Writes of keys as arguments of a script, see `lua/lib/key_values.lua`."""
    packed: list[bytes | str | int] = []
    for write in writes:
        version = "" if write.version is None else write.version
        act, value = ("delete", b"") if write.value is None else ("set", write.value)
        packed += (encode_key(write.key), version, act, value)
    return packed


# --- states and records ---


class FoundJob(msgspec.Struct, frozen=True):
    """A job as a script returns it, with fields that only the store needs."""

    record: Record
    number: int
    at: float
    act: Act | None
    """How its last lease ended."""
    size: int
    """Its size in bytes."""


def decode_jobs(flat: Sequence[Any]) -> list[FoundJob]:
    """Jobs from the answer of `lua/lib/read_jobs.lua`."""
    body = BodyDecoder()
    return [_decode_job(body, *flat[index : index + 7]) for index in range(0, len(flat), 7)]


def _decode_job(
    body: BodyDecoder,
    id: bytes,
    packed_body: bytes,
    packed_state: bytes,
    score: bytes,
    result: bytes | None,
    progress: bytes | None,
    history: Sequence[bytes],
) -> FoundJob:
    body.read(packed_body)
    at = float(score)
    state, act, flags, finished, attempts, token, started, worker = _read_state(packed_state)
    record = make_record(
        id.decode(), body.kind, state, body.payload, body.priority, body.options, attempts,
        body.created_at, token, worker, started or None, at, finished or None,
        bool(flags & CANCEL_REQUESTED), progress, result, tuple(map(_read_attempt, history)),
    )  # fmt: skip
    size = len(packed_body) + len(result or b"") + len(progress or b"") + sum(map(len, history))
    return FoundJob(record, body.number, at, _act_of(act), size)


class LastLease(msgspec.Struct, frozen=True):
    """How the last lease of a job ended, and the job's history."""

    act: Act | None
    token: int
    result: bytes | None
    history: tuple[Failure, ...]


def decode_last_leases(flat: Sequence[Any]) -> dict[str, LastLease]:
    """The last leases of jobs with refused transitions, by id, see `lua/lib/apply.lua`."""
    return {
        flat[index].decode(): _decode_last_lease(*flat[index + 1 : index + 4])
        for index in range(0, len(flat), 4)
    }


def _decode_last_lease(
    packed_state: bytes, result: bytes | None, history: Sequence[bytes]
) -> LastLease:
    _, act, _, _, _, token, _, _ = _read_state(packed_state)
    return LastLease(_act_of(act), token, result, tuple(map(_read_attempt, history)))


def _act_of(code: int) -> Act | None:
    return SETTLING_ACTS[code - 1] if code else None


_JobStateFields = tuple[State, int, int, float, int, int, float, str]
_NEVER_LEASED: _JobStateFields = (State.QUEUED, 0, 0, 0.0, 0, 0, 0.0, "")
"""The state of a job that was never leased: it is not stored."""


def _read_state(packed: bytes) -> _JobStateFields:
    if not packed:
        return _NEVER_LEASED
    code, act, flags, finished, _, attempts, token, started = _STATE.unpack_from(packed)
    at = _STATE.size + _LENGTH.size
    (size,) = _LENGTH.unpack_from(packed, _STATE.size)
    worker = packed[at : at + size].decode()
    return (STATES_BY_CODE[code], act, flags, finished, attempts, token, started, worker)


def _read_attempt(packed: bytes) -> Failure:
    attempt, at, started_at, size = _ATTEMPT.unpack_from(packed)
    end = _ATTEMPT.size + size
    return msgspec.structs.replace(
        decode_failure(packed[end:]),
        attempt=attempt,
        at=at,
        started_at=started_at,
        worker=packed[_ATTEMPT.size : end].decode(),
    )


# --- settings: stored as a whole, and in separate fields for the scripts ---


def settings_fields(settings: QueueSettings) -> list[bytes | str]:
    """Fields and values of the queue's hash."""
    limit = "" if settings.max_jobs is None else str(settings.max_jobs)
    return [
        "settings", encode_settings(settings),
        "ageing", repr(settings.ageing),
        "paused", "1" if settings.paused else "0",
        "group_limit", str(settings.group_limit),
        "max_jobs", limit,
        "repair_limit", str(settings.repair_limit),
    ]  # fmt: skip


def new_queue_fields(mark: int) -> list[bytes | str]:
    """The fields of a new queue.

    Wake-ups are requested, because a worker may already be waiting for its jobs.
    """
    return [*settings_fields(DEFAULT_SETTINGS), "wake_requested", "1", "mark", str(mark)]
