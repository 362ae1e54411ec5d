"""How the tables store words: states and acts as small numbers, names as bytes."""

from __future__ import annotations

import functools

import msgspec

from ackline.config import QueueSettings
from ackline.events import Act
from ackline.job import NO_OPTIONS, Failure, Options, QueueKey, State
from ackline.stores.base import WorkerBeat

STATES = tuple(State)
"""A state's code is its place in this tuple. The tables depend on it: append only."""

CODE = {state: code for code, state in enumerate(STATES)}

SETTLING = (Act.COMPLETE, Act.FAIL, Act.SNOOZE, Act.RELEASE, Act.EXPIRE, Act.CANCEL)
"""The acts that end a lease. The tables store their place in this tuple: append only."""

ACT_CODE = {act: code for code, act in enumerate(SETTLING)}

LANES, PROMOTED, ODD = 21, 10, 20
"""How many lanes a line has; the first lane of promoted jobs; the lane of jobs in any order."""

_encode = msgspec.msgpack.Encoder().encode
_decode_options = msgspec.msgpack.Decoder(Options).decode

encode_failure = encode_beat = encode_settings = _encode

DROPPED = encode_settings({"dropped": True})
"""The settings of a dropped queue, of which only the journal is left. To earlier versions of
Ackline they read as default settings."""
decode_failure = msgspec.msgpack.Decoder(Failure).decode
decode_beat = msgspec.msgpack.Decoder(WorkerBeat).decode


def encode_options(options: Options) -> bytes | None:
    """Options as bytes; None, which takes no room, if there are none, as for most jobs."""
    return None if options is NO_OPTIONS or options == NO_OPTIONS else _encode(options)


def decode_options(data: bytes | None) -> Options:
    """Read back what `encode_options` wrote."""
    return NO_OPTIONS if data is None else _decode_options(data)


@functools.lru_cache(maxsize=1024)
def decode_settings(data: bytes) -> QueueSettings:
    """Read a queue's settings; queues that share them share the object."""
    return msgspec.msgpack.decode(data, type=QueueSettings)


@functools.lru_cache(maxsize=4096)
def name_of(data: bytes) -> str:
    """A name that occurs often, such as a kind, a group or a worker, from its bytes."""
    return data.decode()


def queue_of(tenant: bytes, name: bytes) -> QueueKey:
    """A queue, from the bytes of its names."""
    return QueueKey(tenant.decode(), name.decode())
