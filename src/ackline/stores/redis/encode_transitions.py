"""Encodes transitions so that a script can apply them without knowing the lifecycle.

Everything that the lifecycle decides when a transition is applied is computed here beforehand, for
every state in which the script may find the job. See `lua/lib/apply.lua`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from ackline.core.events import ACTS_WITH_PRIORITY, Act
from ackline.core.ids import new_id
from ackline.core.job import QueueKey, State
from ackline.core.lifecycle import (
    REPEATABLE,
    Destination,
    Edit,
    ExpectedJob,
    Transition,
    find_destination,
    history_entry,
    journal_note,
    may_apply,
    may_move,
)
from ackline.stores.redis.encode_jobs import new_queue_fields
from ackline.stores.redis.io.connection import Argument
from ackline.stores.redis.key_names import KeyNames
from ackline.stores.shared.key_encoding import encode_key
from ackline.stores.shared.record_encoding import (
    ACT_CODES,
    STATE_CODES,
    STATES_BY_CODE,
    encode_failure,
)

_encode = msgspec.msgpack.Encoder().encode
_COMPLETE = Act.COMPLETE


class TransitionEncoder:
    """Encodes the transitions of one queue."""

    def __init__(self, names: KeyNames, queue: QueueKey) -> None:
        self._names = names
        self._queue = queue

    def pack(self, transitions: Sequence[Transition]) -> Iterator[Argument]:
        """Arguments of a script: neighbours that differ only in id and data are one run."""
        start = 0
        while start < len(transitions):
            first = transitions[start]
            end = start + 1
            while end < len(transitions) and _same_but_data(first, transitions[end]):
                end += 1
            run = transitions[start:end]
            ids = [transition.id for transition in run]
            name, data_of = _data(first)
            encoded = self._fields_of(first, name)
            encoded["plain_completion"] &= len(set(ids)) == len(ids)
            yield _encode(encoded)
            yield len(ids)
            yield from ids
            if name is not None:
                yield from map(data_of, run)
            start = end

    def pack_move(self, transition: Transition, id_taken: bool) -> bytes:
        """A move to another slot; it is refused if its id is taken there."""
        assert transition.target is not None
        encoded = self._fields_of(transition, None)
        if id_taken:
            encoded["destinations"] = [False] * len(STATES_BY_CODE)
        encoded |= {"entry": self._names.entry(transition.target), "move": new_id()}
        return _encode(encoded)

    def _fields_of(self, transition: Transition, data: str | None) -> dict[str, Any]:
        act = transition.act
        destinations, if_cancel_requested = _destinations(
            self._queue,
            act,
            transition.to,
            transition.token is not None,
            transition.delay,
            transition.keep,
            transition.keep_cancelled,
            transition.edit and Edit(delay=transition.edit.delay, keep=transition.edit.keep),
            transition.target,
        )
        encoded: dict[str, Any] = {
            "act": act,
            "by": transition.by,
            "note": journal_note(transition),
            "recovered_by": transition.recovered_by,
            "code": ACT_CODES.get(act, -1) + 1,
            "destinations": destinations,
            "token": transition.token,
            "deadline": transition.deadline,
            "expected": transition.expected and _pack_expected(transition.expected),
            "unlapsed": act is Act.EXTEND,
            "if_cancel_requested": if_cancel_requested,
            "attempts": transition.attempts,
            "data": data,
            "priority": transition.edit.priority if transition.edit else None,
            "with_priority": act in ACTS_WITH_PRIORITY or None,
            "with_callback": transition.has_callback or None,
            "undelivered_keys": [
                _binary_string(encode_key(key)) for key in transition.undelivered_keys
            ]
            or None,
            "plain_completion": act is _COMPLETE
            and transition.token is not None
            and not transition.has_callback,
            "repeatable": (transition.token is not None and act in REPEATABLE) or None,
        }
        if transition.target is not None:
            encoded |= self._move(transition.target)
        return {name: value for name, value in encoded.items() if value is not None}

    def _move(self, target: QueueKey) -> dict[str, Any]:
        names = self._names
        settings = [
            _binary_string(field) if isinstance(field, bytes) else field
            for field in new_queue_fields(names.queue_mark(target))
        ]
        return {
            "target": [names.base(target), names.registry, names.entry(target), settings],
            "moved": [self._queue.name, target.name],
        }


def _pack_expected(expected: ExpectedJob) -> dict[str, Any]:
    return {
        "state": STATE_CODES[expected.state],
        "token": expected.token,
        "priority": expected.priority,
        "payload": _binary_string(expected.payload),
        "at": False if expected.at is None else expected.at,
    }


def _binary_string(data: bytes) -> msgspec.Raw:
    """Bytes for a script: its msgpack has no type for them, but its strings may have any bytes."""
    return msgspec.Raw(b"\xdb" + len(data).to_bytes(4, "big") + data)


@functools.lru_cache(maxsize=512)
def _destinations(
    queue: QueueKey,
    act: Act,
    to: State | None,
    fenced: bool,
    delay: float,
    keep: float,
    keep_cancelled: float | None,
    edit: Edit | None,
    target: QueueKey | None,
) -> tuple[tuple[Any, ...], Any]:
    """The destination from each state, and the one if the job has a cancel request.

    Cached, because for a single job computing it takes a worker longer than everything else. So the
    arguments must not include what makes no difference here, such as a payload.
    """
    transition = Transition(
        id="",
        act=act,
        to=to,
        token=0 if fenced else None,
        delay=delay,
        keep=keep,
        keep_cancelled=keep_cancelled,
        edit=edit,
        target=target,
    )
    destinations = tuple(_destination(queue, transition, state) for state in STATES_BY_CODE)
    usual = find_destination(transition, State.PROCESSING, False)
    if_cancel_requested = find_destination(transition, State.PROCESSING, True)
    if if_cancel_requested == usual:
        return destinations, None
    return destinations, _pack(if_cancel_requested)


def _destination(queue: QueueKey, transition: Transition, state: State) -> Any:
    if not may_apply(transition, state):
        return False
    if transition.target is not None and not may_move(queue, transition.target):
        return False
    return _pack(find_destination(transition, state, False))


def _pack(destination: Destination) -> tuple[int, str, float]:
    return (STATE_CODES[destination.state], destination.position_rule, destination.seconds)


def _same_but_data(one: Transition, other: Transition) -> bool:
    """Whether two transitions differ only in id and data."""
    if one.act is not other.act or one.token != other.token or one.keep != other.keep:
        return False
    if one.act is _COMPLETE:
        same_data = (one.result is None) == (other.result is None)
        same_entry = one.has_callback == other.has_callback and one.by == other.by
        return same_data and same_entry and one.note == other.note
    return msgspec.structs.replace(other, id=one.id) == one


_DataOf = Callable[[Transition], bytes]


def _data(transition: Transition) -> tuple[str | None, _DataOf]:
    """The name of a transition's data, and how to get it."""
    if transition.result is not None:
        return "result", lambda one: one.result or b""
    if transition.act is Act.PROGRESS:
        return "progress", lambda one: one.progress or b""
    if transition.edit is not None and transition.edit.payload is not None:
        return "payload", lambda one: (one.edit and one.edit.payload) or b""
    if history_entry(transition, 0, "", 0.0, 0.0) is not None:
        return "attempt", _encode_attempt
    return None, _no_data


def _no_data(_transition: Transition) -> bytes:
    return b""


def _encode_attempt(transition: Transition) -> bytes:
    # The script adds the number of the attempt, its worker and its times.
    attempt = history_entry(transition, 0, "", 0.0, 0.0)
    assert attempt is not None
    return encode_failure(attempt)
