"""How stores encode states, acts and structures, and how stored values become a record."""

from __future__ import annotations

import functools
from collections.abc import Callable

import msgspec

from ackline.core.config import QueueSettings
from ackline.core.events import Act
from ackline.core.job import NO_OPTIONS, Failure, Options, Record, State
from ackline.stores.contract import Heartbeat

STATES_BY_CODE = tuple(State)
"""The code of a state is its index. Stored data depends on it: append only."""

STATE_CODES = {state: code for code, state in enumerate(STATES_BY_CODE)}

SETTLING_ACTS = (Act.COMPLETE, Act.FAIL, Act.SNOOZE, Act.RELEASE, Act.EXPIRE, Act.CANCEL)
"""The acts that end a lease; the code of an act is its index. Append only."""

ACT_CODES = {act: code for code, act in enumerate(SETTLING_ACTS)}

_encode = msgspec.msgpack.Encoder(order="deterministic").encode

encode_failure: Callable[[Failure], bytes] = _encode
encode_heartbeat: Callable[[Heartbeat], bytes] = _encode
encode_settings: Callable[[QueueSettings], bytes] = _encode

decode_failure = msgspec.msgpack.Decoder(Failure).decode
decode_heartbeat = msgspec.msgpack.Decoder(Heartbeat).decode
_decode_options = msgspec.msgpack.Decoder(Options).decode

DROPPED_QUEUE = _encode({"dropped": True})
"""Stored instead of the settings of a dropped queue, of which only the journal is left."""


def encode_options(options: Options) -> bytes | None:
    """Encode options; None if there are none, as for most jobs."""
    return None if options is NO_OPTIONS or options == NO_OPTIONS else _encode(options)


def decode_options(data: bytes | None) -> Options:
    """Decode what `encode_options` has encoded."""
    return _decode_options(data) if data else NO_OPTIONS


@functools.lru_cache(maxsize=1024)
def decode_settings(data: bytes) -> QueueSettings:
    """Decode the settings of a queue; queues with equal settings share the object."""
    return msgspec.msgpack.decode(data, type=QueueSettings)


def make_record(
    id: str,
    kind: str,
    state: State,
    payload: bytes,
    priority: int,
    options: Options,
    attempts: int,
    created_at: float,
    token: int,
    worker: str,
    started_at: float | None,
    at: float,
    finished_at: float | None,
    cancel_requested: bool,
    progress: bytes | None = None,
    result: bytes | None = None,
    history: tuple[Failure, ...] = (),
) -> Record:
    """Build a record; `at` is the job's time in the list of its state."""
    return Record(
        id,
        kind,
        state,
        payload,
        priority,
        options,
        attempts,
        created_at,
        token,
        worker,
        started_at,
        at if state is State.PROCESSING else None,
        at if state is State.SCHEDULED or state is State.FAILING else None,
        finished_at,
        at if state.terminal else None,
        cancel_requested,
        progress,
        result,
        history,
    )
