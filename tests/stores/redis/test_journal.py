"""Reading the journal and decoding its batches."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

import msgspec
import pytest
import redis
from tests.stores.redis.conftest import drafts

from ackline.core.events import Act, Entry, LazyEntries
from ackline.core.job import QueueKey, State
from ackline.stores.redis import RedisStore
from ackline.stores.redis.journal import read_batch
from ackline.stores.shared.journal_batches import uniform_runs

QUEUE = QueueKey("default", "mail")

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


def with_values(name: str, values: list[Any]) -> list[Entry]:
    pairs = zip(ENTRIES, values, strict=True)
    return [msgspec.structs.replace(entry, **{name: value}) for entry, value in pairs]


def test_runs_share_what_they_have_in_common():
    at, entries = read_batch(fields(), 4)

    assert at == 1.5
    assert list(entries) == ENTRIES


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
    _, found = read_batch(fields(p=digits), 4)

    assert list(found) == with_values("priority", priorities)


def test_callbacks_are_found_by_the_numbers_of_their_entries():
    packed = msgspec.msgpack.encode([2, "https://b", 4, "https://d"])

    _, found = read_batch(fields(c=packed), 4)

    assert list(found) == with_values("callback_url", [None, "https://b", None, "https://d"])


def many(*runs: tuple[Any, ...], **more: bytes) -> Sequence[Entry]:
    """A batch of claims; each run has kinds, attempts and a number of ids."""
    ids = iter(f"job-{number:03}" for number in range(1000))
    packed = msgspec.msgpack.encode(
        [2, *(["claim", 1, 2, 7, "w", "", "", *run[:2], [*islice(ids, run[2])]] for run in runs)]
    )
    with_values = {name.encode(): value for name, value in more.items()}
    return read_batch({b"e": packed} | with_values, sum(run[2] for run in runs))[1]


def ids_in_rows(batch: Sequence[Entry]) -> list[tuple[Entry, list[str]]]:
    assert isinstance(batch, LazyEntries)
    return [
        (
            alike.entry,
            [
                alike.rows[start : start + alike.width][alike.ids].decode()
                for start in range(0, len(alike.rows), alike.width)
            ],
        )
        for alike in uniform_runs(batch)
    ]


@pytest.mark.parametrize(
    "more",
    [{}, {"p": b"5" * 40 + b"3" * 60}, {"p": b"5" * 40}, {"p": b"-" * 40 + b"3" * 60}, {"p": b""}],
)
def test_many_entries_of_a_run_are_rows_that_have_their_ids(more):
    entries = many(("k", 1, 40), ("l", 2, 60), **more)

    found = ids_in_rows(entries)

    assert [ids for _, ids in found] == [
        [f"job-{number:03}" for number in some] for some in (range(40), range(40, 100))
    ]
    rows = [msgspec.structs.replace(entry, id=id) for entry, ids in found for id in ids]
    assert list(entries) == rows


@pytest.mark.parametrize(
    ("run", "more"),
    [
        ((["k", "l"] * 20, 1, 40), {}),
        (("k", [1, 2] * 20, 40), {}),
        (("k", 1, 40), {"p": b"5" * 39}),
        (("k", 1, 40), {"p": b"5" * 39 + b"4"}),
        (("k", 1, 40), {"c": msgspec.msgpack.encode([2, "https://b"])}),
    ],
)
def test_entries_that_differ_by_more_than_their_ids_are_not_rows(run, more):
    entries = many(run, **more)

    assert isinstance(entries, LazyEntries)
    assert uniform_runs(entries) == []
    assert len({msgspec.structs.replace(one, id="") for one in entries}) == 2


def test_a_page_reads_little_more_than_its_own_batches(
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
