"""Watching keys: one poll for all watchers of a prefix, without delaying others."""

from __future__ import annotations

import json
import socket
import threading
import time
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count, islice

import httpx
import pytest
from httpx_sse import connect_sse
from tests.service.threads.test_slow_work import BlockedCall
from tests.waiting import until

from ackline.core.errors import StoreUnavailable
from ackline.service.keyspace import prefix_watcher
from ackline.service.keyspace.prefix_watcher import read_snapshot
from ackline.service.threads.slow_work import TooManySlowRequests
from ackline.stores.contract import KeyWrite

WATCHERS = 20


@contextmanager
def watching(live, prefix="w"):
    url = f"{live.url}{live.runtime.settings.base}/watch?prefix={prefix}"
    with httpx.Client(timeout=10) as client, connect_sse(client, "GET", url) as source:
        yield (one for one in source.iter_sse() if one.event != "ping")


def next_keys(events, count):
    return [(one.event, json.loads(one.data)["key"][-1]) for one in islice(events, count)]


def put(live, *names):
    writes = [KeyWrite(key=("w", name), value=b"1") for name in names]
    assert live.runtime.store.write_keys("default", writes)


class Counted:
    """Polls that the test can wait for."""

    def __init__(self):
        self.reads = 0
        self.full_reads = 0

    def __call__(self, store, prefix, known, everything):
        self.reads += 1
        self.full_reads += everything
        return read_snapshot(store, prefix, known, everything)


@pytest.fixture
def counted(monkeypatch):
    counted = Counted()
    monkeypatch.setattr(prefix_watcher, "read_snapshot", counted)
    return counted


def test_watchers_of_a_prefix_share_each_poll(live, counted):
    put(live, "a", "b")
    with ExitStack() as stack:
        first = stack.enter_context(watching(live))
        assert next_keys(first, 2) == [("set", "a"), ("set", "b")]
        others = [stack.enter_context(watching(live)) for _ in range(WATCHERS - 1)]
        for events in others:
            assert next_keys(events, 2) == [("set", "a"), ("set", "b")]
        before = counted.reads

        live.api.put("/keys/w/c", {"value": 2})

        for events in [first, *others]:
            assert next_keys(events, 1) == [("set", "c")]
        assert counted.reads - before < WATCHERS / 2


def test_new_watchers_get_all_keys_and_others_the_changes(live):
    put(live, "a", "b")
    with watching(live) as early:
        assert next_keys(early, 2) == [("set", "a"), ("set", "b")]
        live.api.delete("/keys/w/a")
        assert next_keys(early, 1) == [("delete", "a")]
        with watching(live) as late:
            assert next_keys(late, 1) == [("set", "b")]
            put(live, "b", "c")
            assert next_keys(late, 2) == next_keys(early, 2) == [("set", "b"), ("set", "c")]


def test_a_write_of_this_process_is_sent_without_waiting_for_a_poll(live, monkeypatch):
    monkeypatch.setattr("ackline.service.wakeups.wakeup.POLL_EVERY", 60.0)
    with watching(live) as events:
        until(lambda: len(live.runtime.streams) == 1)
        live.api.put("/keys/w/a", {"value": 1})

        assert next_keys(events, 1) == [("set", "a")]


def test_polls_delay_only_watchers(live, monkeypatch):
    blocked = BlockedCall(
        read_snapshot(live.runtime.store, ("default", ("w",)), {}, everything=True)
    )
    monkeypatch.setattr(prefix_watcher, "read_snapshot", blocked)
    live.api.enqueue(1, id="a")

    def watch(prefix):
        with watching(live, prefix) as events:
            live.runtime.streams.end_all()
            list(events)

    watchers = [threading.Thread(target=watch, args=[f"w{n}"]) for n in range(16)]
    for watcher in watchers:
        watcher.start()
    try:
        blocked.wait_for(2)

        assert live.api.get("/queue/poll")["message"]["id"] == "a"
    finally:
        blocked.release()
        for watcher in watchers:
            watcher.join(10)


def test_an_unwatched_prefix_is_not_polled(live, counted, monkeypatch):
    monkeypatch.setattr(prefix_watcher, "STOP_AFTER", 0.01)
    with watching(live):
        until(lambda: counted.full_reads == 1)
    live.runtime.streams.end_all()

    names = map(str, count())

    def is_not_read() -> bool:
        before = counted.reads
        put(live, next(names))
        time.sleep(0.1)
        return bool(counted.reads == before)

    until(is_not_read)


def test_a_refused_poll_is_repeated_later(live, monkeypatch):
    refused = threading.Event()

    def read_or_refuse(store, prefix, known, everything):
        if everything and not refused.is_set():
            refused.set()
            raise TooManySlowRequests("too many", "looks")
        return read_snapshot(store, prefix, known, everything)

    put(live, "a")
    monkeypatch.setattr(prefix_watcher, "read_snapshot", read_or_refuse)

    with watching(live) as events:
        assert next_keys(events, 1) == [("set", "a")]
    assert refused.is_set()


def test_a_watch_ends_with_a_store_error_and_can_be_restarted(live, monkeypatch):
    put(live, "a")

    def fail(*_arguments):
        raise StoreUnavailable("away")

    with watching(live) as events:
        assert next_keys(events, 1) == [("set", "a")]
        monkeypatch.setattr(prefix_watcher, "read_snapshot", fail)
        assert list(events) == []
    monkeypatch.undo()

    with watching(live) as events:
        assert next_keys(events, 1) == [("set", "a")]


ROUNDS, KEYS = 10, 20


def test_a_slow_reader_is_sent_the_latest_values_and_costs_no_memory(live, monkeypatch):
    monkeypatch.setattr(prefix_watcher, "PAUSE_FACTOR", 0)
    monkeypatch.setattr("ackline.service.wakeups.wakeup.POLL_EVERY", 0.1)
    found: list[prefix_watcher.PrefixSnapshot] = []

    def recorded(*args):
        found[:] = [read_snapshot(*args)]
        return found[0]

    monkeypatch.setattr(prefix_watcher, "read_snapshot", recorded)
    names = [("w", str(n)) for n in range(KEYS)]
    store = live.runtime.store
    host, port = live.url.removeprefix("http://").split(":")
    with socket.socket() as link:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        link.connect((host, int(port)))
        link.sendall(b"GET /api/watch?prefix=w HTTP/1.1\r\nhost: localhost\r\n\r\n")
        until(lambda: len(live.runtime.streams) == 1)
        for number in range(ROUNDS):
            value = b'"' + str(number).encode() * 300_000 + b'"'
            assert store.write_keys("default", [KeyWrite(key=name, value=value) for name in names])
            versions = {
                entry.key: entry.version for entry in store.read_keys("default", ("w",), 99)
            }
            until(partial(_is_seen, found, versions))
            assert sum(map(len, found[0].events.values())) < prefix_watcher.CACHED_BYTES + 400_000

        link.settimeout(10)
        latest, sent = {str(version).encode() for version in versions.values()}, list[bytes]()
        with link.makefile("rb") as lines:
            while not latest <= set(sent):
                line = lines.readline()
                sent += [line.split()[1]] if line.startswith(b"id:") else []
    assert len(sent) < ROUNDS * KEYS / 2


def _is_seen(found, versions):
    return found and found[0].versions == versions


def test_keys_are_listed_within_bytes(live):
    value = "x" * 900_000
    for n in range(8):
        live.api.put(f"/keys/w/{n}", {"value": value})

    first = live.api.get("/keys", prefix="w")
    rest = live.api.get("/keys", prefix="w", after=first[-1]["key"])

    assert [key["key"][1] for key in first] == list("01234")
    assert [key["key"][1] for key in rest] == list("567")
