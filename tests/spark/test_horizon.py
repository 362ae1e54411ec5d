"""A store remembers how far streams have come, and not for ever."""

from __future__ import annotations

import pytest

from ackline.spark import horizon
from ackline.spark.errors import StreamMismatch
from ackline.spark.horizon import ROOM, note_horizon, require_within
from ackline.stores.base import KeyWrite


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(horizon, "MOST", 3)


def known(queues):
    return [entry.key[-1] for entry in queues.store.read_keys(queues.tenant, ROOM, 100)]


def test_the_streams_that_are_silent_for_longest_are_forgotten(queues, clock):
    for stream in ("a", "b", "c", "a", "d", "a", "e"):
        clock.advance(1.0)
        note_horizon(queues, stream, ["5.0"])

    assert known(queues) == ["a", "d", "e"]
    require_within(queues, "a", ["5.0"])
    with pytest.raises(StreamMismatch):
        require_within(queues, "b", ["5.0"])


def test_a_stream_of_jobs_keeps_what_it_has_there(queues, clock):
    key = (*ROOM, "stream", "state")
    queues.store.write_keys(queues.tenant, [KeyWrite(key=key, value=b"x")])
    for stream in "abcde":
        clock.advance(1.0)
        note_horizon(queues, stream, ["5.0"])

    assert known(queues) == ["c", "d", "e", "state"]


def test_a_horizon_never_goes_back(queues):
    note_horizon(queues, "a", ["5.0"])
    note_horizon(queues, "a", ["4.0"])

    require_within(queues, "a", ["5.0"])
