"""A batch comes back as it was packed, whether its entries are uniform or not."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackline.core.events import Act, Entry, LazyEntries
from ackline.core.job import State
from ackline.stores.shared.journal_batches import (
    LAZY_FROM,
    count_entries,
    pack_entries,
    uniform_runs,
    unpack_entries,
)

states = st.none() | st.sampled_from(State)
texts = st.text(st.characters(exclude_categories=["Cs"]))
entries = st.builds(
    Entry,
    act=st.sampled_from(Act),
    id=texts,
    kind=st.just("k"),
    source=states,
    to=states,
    attempt=st.integers(0, 9),
    token=st.integers(0, 2**62),
    worker=st.sampled_from(["", "w1"]),
    note=st.just(""),
    by=st.sampled_from(["", "me"]),
    priority=st.none() | st.integers(0, 9),
    callback_url=st.none() | st.just("https://example.com"),
)
CLAIMED = Entry(Act.CLAIM, "a", "k", State.QUEUED, State.PROCESSING, 1, 2**50, "w")


def uniform(entry: Entry, ids: list[str]) -> list[Entry]:
    return [msgspec.structs.replace(entry, id=id) for id in ids]


def ids_in_rows(batch: Sequence[Entry]) -> list[str]:
    assert isinstance(batch, LazyEntries)
    [rows] = uniform_runs(batch)
    assert len(rows) == len(batch)
    starts = range(0, len(rows.rows), rows.width)
    return [rows.rows[start : start + rows.width][rows.ids].decode() for start in starts]


@given(st.lists(entries, max_size=2 * LAZY_FROM))
def test_a_batch_of_any_entries(batch):
    assert list(unpack_entries(pack_entries(batch))) == batch


@given(entries, st.lists(texts, max_size=2 * LAZY_FROM))
def test_a_batch_of_entries_with_any_ids(entry, ids):
    batch = uniform(entry, ids)

    assert list(unpack_entries(pack_entries(batch))) == batch


@given(entries, st.lists(st.uuids().map(str), min_size=LAZY_FROM, max_size=2 * LAZY_FROM))
def test_entries_alike_but_for_their_ids_are_rows_that_have_them(entry, ids):
    batch = uniform(entry, ids)

    found = unpack_entries(pack_entries(batch))

    assert ids_in_rows(found) == ids
    assert list(found) == batch


@pytest.mark.parametrize("size", [LAZY_FROM, 65_535, 65_536])
@pytest.mark.parametrize("length", [0, 1, 31, 32, 255, 256])
def test_ids_of_all_lengths_in_batches_of_all_sizes(size, length):
    batch = uniform(CLAIMED, [f"{number:05d}".zfill(length)[:length] for number in range(size)])

    found = unpack_entries(pack_entries(batch))

    assert ids_in_rows(found) == [entry.id for entry in batch]
    assert list(found) == batch


def test_rows_of_several_widths_are_seen_by_the_first():
    batch = uniform(CLAIMED, ["short", *["middle"] * (LAZY_FROM - 2), "longest"])

    found = unpack_entries(pack_entries(batch))

    assert isinstance(found, LazyEntries)
    assert uniform_runs(found) == []
    assert list(found) == batch


@pytest.mark.parametrize(
    "odd", [{"attempt": 2}, {"kind": "l"}, {"worker": "v"}, {"priority": 5}, {"act": Act.ENQUEUE}]
)
@pytest.mark.parametrize("position", [0, 1, LAZY_FROM - 1])
def test_an_entry_that_differs_is_noticed_at_any_position(odd, position):
    batch = uniform(CLAIMED, [f"{number:05d}" for number in range(LAZY_FROM)])
    batch[position] = msgspec.structs.replace(batch[position], **odd)

    assert list(unpack_entries(pack_entries(batch))) == batch


def test_an_id_may_be_the_name_of_the_act():
    batch = uniform(CLAIMED, ["claim"] * LAZY_FROM)

    assert list(unpack_entries(pack_entries(batch))) == batch


@pytest.mark.parametrize("size", [1, LAZY_FROM])
def test_entries_of_an_earlier_version_have_fewer_fields(size):
    packed = msgspec.msgpack.encode([["enqueue", "a", "k", None, "queued"]] * size)

    assert list(unpack_entries(packed)) == [Entry(Act.ENQUEUE, "a", "k", None, State.QUEUED)] * size


@pytest.mark.parametrize("size", [1, LAZY_FROM])
@pytest.mark.parametrize("more", [1, 10])
def test_entries_of_a_later_version_have_more_fields(size, more):
    fields = [*msgspec.structs.astuple(CLAIMED), *["new"] * more]

    assert list(unpack_entries(msgspec.msgpack.encode([fields] * size))) == [CLAIMED] * size


def test_an_earlier_version_reads_what_this_one_packs():
    """During a rolling upgrade."""

    class Earlier(msgspec.Struct, array_like=True):
        act: Act
        id: str

    packed = pack_entries([Entry(Act.ENQUEUE, "a", "k", None, State.QUEUED, priority=5)])

    assert msgspec.msgpack.decode(packed, type=list[Earlier]) == [Earlier(Act.ENQUEUE, "a")]


@pytest.mark.parametrize("size", [0, 1, 15, 16, 65_535, 65_536])
def test_batches_of_all_sizes_are_counted(size):
    assert count_entries(pack_entries([CLAIMED] * size)) == size
