"""A store remembers how far streams have come, and not for ever."""

from __future__ import annotations

import pytest

from ackline.core.limits import RESERVED_KEY_PREFIX
from ackline.spark.errors import StreamMismatch
from ackline.spark.streams.events import stream_records
from ackline.spark.streams.events.high_watermark import raise_watermark, require_below_watermark
from ackline.stores.contract import KeyWrite

PREFIX = (RESERVED_KEY_PREFIX, "spark", "watermarks")


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(stream_records, "MAX_STREAMS", 3)


def known(queues):
    entries = queues.store.read_keys(queues.tenant, PREFIX, 100)
    return [entry.key[-1] for entry in entries if entry.key != PREFIX]


def test_the_streams_that_are_silent_for_longest_are_forgotten(queues, clock):
    for stream in ("a", "b", "c", "a", "d", "a", "e"):
        clock.advance(1.0)
        raise_watermark(queues, stream, ["5.0"])

    assert known(queues) == ["a", "d", "e"]
    require_below_watermark(queues, "a", ["5.0"])


def test_a_stream_that_was_forgotten_goes_on(queues, clock):
    for stream, cursor in (("far", "7.0"), ("near", "5.0"), *((name, "9.0") for name in "abcd")):
        clock.advance(1.0)
        raise_watermark(queues, stream, [cursor])
    assert known(queues) == ["b", "c", "d"]

    require_below_watermark(queues, "far", ["7.0"])
    require_below_watermark(queues, "near", ["5.0"])
    raise_watermark(queues, "near", ["8.0"])
    require_below_watermark(queues, "near", ["8.0"])


def test_what_no_forgotten_stream_has_read_is_refused(queues, clock):
    with pytest.raises(StreamMismatch):
        require_below_watermark(queues, "before", ["1.0"])
    for stream in "abcd":
        clock.advance(1.0)
        raise_watermark(queues, stream, ["5.0"])

    with pytest.raises(StreamMismatch, match=r"5\.0"):
        require_below_watermark(queues, "a", ["6.0"])


def test_a_stream_that_gives_a_sign_of_life_meanwhile_is_not_forgotten(queues, clock, monkeypatch):
    for stream in "abc":
        clock.advance(1.0)
        raise_watermark(queues, stream, ["5.0"])
    write, store = queues.store.write_keys, queues.store

    def after_a(tenant, writes):
        if any(one.value is None for one in writes):
            monkeypatch.setattr(store, "write_keys", write)
            raise_watermark(queues, "a", ["6.0"])
        return write(tenant, writes)

    monkeypatch.setattr(store, "write_keys", after_a)
    raise_watermark(queues, "d", ["5.0"])

    require_below_watermark(queues, "a", ["6.0"])


def test_a_driver_that_wakes_up_late_takes_nothing_back(queues, monkeypatch):
    raise_watermark(queues, "a", ["4.0"])
    write, store = queues.store.write_keys, queues.store

    def after_another_driver(tenant, writes):
        monkeypatch.setattr(store, "write_keys", write)
        raise_watermark(queues, "a", ["6.0"])
        return write(tenant, writes)

    monkeypatch.setattr(store, "write_keys", after_another_driver)
    raise_watermark(queues, "a", ["5.0"])

    require_below_watermark(queues, "a", ["6.0"])
    with pytest.raises(StreamMismatch, match=r"6\.0"):
        require_below_watermark(queues, "a", ["7.0"])


def test_a_stream_of_jobs_keeps_what_it_has_there(queues, clock):
    key = (*PREFIX, "stream", "state")
    queues.store.write_keys(queues.tenant, [KeyWrite(key=key, value=b"x")])
    for stream in "abcde":
        clock.advance(1.0)
        raise_watermark(queues, stream, ["5.0"])

    assert known(queues) == ["c", "d", "e", "state"]


def test_a_horizon_never_goes_back(queues):
    raise_watermark(queues, "a", ["5.0"])
    raise_watermark(queues, "a", ["4.0"])

    require_below_watermark(queues, "a", ["5.0"])
