"""How the journal is read, and a packed batch of it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import redis
from tests.stores.redis.conftest import drafts

from ackline.events import Act, Entry
from ackline.job import QueueKey, State
from ackline.stores.redis import RedisStore
from ackline.stores.redis.journal import _unpack

QUEUE = QueueKey("default", "mail")
MANY = 100

CLAIMED = ["claim", 1, 2, 77, "w1", "", "", ["k", "l"], [1, 3], ["a", "b"]]
FAILED = ["fail", 2, 5, 78, "w1", "why", "me", "k", 2, ["c"]]
DROPPED = ["purge", 0, -1, 0, "", "", "", "k", 0, ["d"]]
ENTRIES = [
    Entry(Act.CLAIM, "a", "k", State.QUEUED, State.PROCESSING, 1, 77, "w1"),
    Entry(Act.CLAIM, "b", "l", State.QUEUED, State.PROCESSING, 3, 77, "w1"),
    Entry(Act.FAIL, "c", "k", State.PROCESSING, State.FAILED, 2, 78, "w1", "why", "me"),
    Entry(Act.PURGE, "d", "k", State.SCHEDULED, None),
]


def fields(**more: bytes) -> dict[bytes, bytes]:
    packed = msgspec.msgpack.encode([1.5, CLAIMED, FAILED, DROPPED])
    return {b"n": b"4", b"e": packed} | {name.encode(): value for name, value in more.items()}


def told(name: str, values: list[Any]) -> list[Entry]:
    pairs = zip(ENTRIES, values, strict=True)
    return [msgspec.structs.replace(entry, **{name: value}) for entry, value in pairs]


def test_runs_share_what_they_have_in_common():
    batch = _unpack(7, QUEUE, fields(), MANY)

    assert (batch.number, batch.at, batch.queue, batch.used) == (7, 1.5, QUEUE, 0)
    assert list(batch.entries) == ENTRIES


@pytest.mark.parametrize(
    ("digits", "priorities"),
    [
        (b"5-03", [5, None, 0, 3]),
        (b"9", [9, None, None, None]),
        (b"--4", [None, None, 4, None]),
        (b"", [None] * 4),
    ],
)
def test_priorities_at_the_end_may_be_left_out(digits, priorities):
    found = _unpack(7, QUEUE, fields(p=digits), MANY).entries

    assert list(found) == told("priority", priorities)


def test_callbacks_are_told_by_the_numbers_of_their_entries():
    packed = msgspec.msgpack.encode([2, "https://b", 4, "https://d"])

    found = _unpack(7, QUEUE, fields(c=packed), MANY).entries

    assert list(found) == told("callback", [None, "https://b", None, "https://d"])


@pytest.mark.parametrize("most", range(1, 6))
def test_no_more_entries_are_made_than_are_needed(most):
    found = _unpack(7, QUEUE, fields(p=b"5-03"), most).entries

    assert list(found) == told("priority", [5, None, 0, 3])[:most]


def test_a_page_takes_little_more_from_the_server_than_its_own_batches(
    store: RedisStore, client: redis.Redis
) -> None:
    for start in range(0, 10_000, 100):
        store.enqueue(QUEUE, drafts(100, start))

    def sent() -> int:
        return int(client.info("stats")["total_net_output_bytes"])

    before = sent()
    assert len(store.events(QUEUE, None, 10_000)) == 10_000
    whole = sent() - before
    before = sent()
    assert len(store.events(QUEUE, None, 1000)) == 1000

    assert sent() - before < whole / 5
