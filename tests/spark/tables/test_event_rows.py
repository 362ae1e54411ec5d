"""Columns made of batches are those that the events themselves would make."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from itertools import chain
from typing import Any

import msgspec
import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ackline.core.events import Act, Entry, Event, Events, JournalBatch
from ackline.core.job import QueueKey, State
from ackline.spark import schemas
from ackline.spark.tables.event_rows import events_batch
from ackline.spark.tables.job_rows import cursor_sort_key
from ackline.stores.shared.journal_batches import LAZY_FROM, pack_entries, unpack_entries

MAIL, HOOKS = QueueKey("default", "mail"), QueueKey("acme", "hooks")


def row(event: Event) -> dict[str, Any]:
    """An event as a row, one field at a time."""
    fields = {
        name: getattr(event, name)
        for name in ("cursor", "id", "kind", "attempt", "token", "worker", "note", "by", "priority")
    } | {"moved_from": event.moved_from, "moved_to": event.moved_to}
    return fields | {
        "tenant": event.queue.tenant,
        "queue": event.queue.name,
        "place": cursor_sort_key(event.cursor),
        "at": datetime.fromtimestamp(event.at, UTC),
        "act": event.act.value,
        "source": event.source and event.source.value,
        "to": event.to and event.to.value,
    }


def check(events: Events) -> None:
    made = events_batch(events)

    assert made.schema == schemas.arrow_schema("events")
    assert made.to_pylist() == [
        {name: row(event)[name] for name in made.schema.names} for event in events
    ]
    assert made == events_batch(list(events))
    made.validate(full=True)


def run(size: int, **same: Any) -> list[Entry]:
    values = {"act": Act.CLAIM, "kind": "k", "source": State.QUEUED, "to": State.PROCESSING} | same
    return [Entry(id=f"job-{number:04}", **values) for number in range(size)]


states = st.none() | st.sampled_from(State)
entries = st.builds(
    Entry,
    act=st.sampled_from(Act),
    id=st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    kind=st.sampled_from(["k", "l"]),
    source=states,
    to=states,
    attempt=st.integers(0, 9),
    token=st.integers(0, 2**62),
    worker=st.sampled_from(["", "w1"]),
    note=st.sampled_from(["", "why"]),
    by=st.sampled_from(["", "me"]),
    priority=st.none() | st.integers(0, 9),
    callback_url=st.none() | st.just("https://example.com"),
    moved_from=st.sampled_from([None, "mail"]),
    moved_to=st.sampled_from([None, "hooks"]),
)
batches = st.lists(
    st.builds(
        JournalBatch,
        number=st.integers(1, 2**120),
        at=st.integers(0, 2**31).map(float),
        queue=st.sampled_from([MAIL, HOOKS]),
        entries=st.lists(entries, min_size=1, max_size=6),
        offset=st.integers(0, 3),
    ),
    max_size=6,
)


@settings(deadline=None)
@given(batches)
def test_batches_of_any_entries(some):
    check(Events(some))


runs = st.builds(
    lambda entry, ids: [msgspec.structs.replace(entry, id=id) for id in ids],
    entries,
    st.lists(st.integers(0, 999), min_size=1, max_size=3 * LAZY_FROM).map(
        lambda numbers: [f"é{number:03}" for number in numbers]
    ),
)
histories = st.lists(
    st.lists(runs, min_size=1, max_size=3).map(lambda some: list(chain(*some))), max_size=4
)


@settings(deadline=None)
@given(histories, st.data())
def test_packed_batches_in_which_many_are_alike(listed, data):
    whole = [
        JournalBatch(number, 1.5, MAIL, unpack_entries(pack_entries(some)))
        for number, some in enumerate(listed, 1)
    ]
    after = data.draw(st.tuples(st.integers(0, 2), st.integers(0, 2 * LAZY_FROM)))
    behind = [batch for batch in whole if batch.number >= after[0]]

    check(Events.up_to_limit(behind, after, data.draw(st.integers(1, 4 * LAZY_FROM))))


@pytest.mark.parametrize("used", [0, LAZY_FROM - 1, LAZY_FROM, LAZY_FROM + 1])
def test_a_page_that_begins_where_others_are_alike(used):
    """They are as wide as those before, but of another kind."""
    entries = run(LAZY_FROM, kind="mail") + run(LAZY_FROM, kind="bill")
    batch = JournalBatch(7, 1.25, MAIL, unpack_entries(pack_entries(entries)))

    check(Events.up_to_limit([batch], (7, used), 2 * LAZY_FROM))


@pytest.mark.parametrize("size", [1, 2, LAZY_FROM - 1, LAZY_FROM, LAZY_FROM + 1, 3 * LAZY_FROM])
def test_entries_that_are_alike_but_for_their_ids(size):
    entries = run(size, token=9, worker="w", priority=5)

    check(Events([JournalBatch(7, 1.25, MAIL, unpack_entries(pack_entries(entries)))]))


@pytest.mark.parametrize(
    "odd",
    [
        {"priority": 3},
        {"note": "why"},
        {"source": None},
        {"worker": "w2"},
        {"attempt": 4},
        {"moved_to": "hooks"},
    ],
)
@pytest.mark.parametrize("place", [0, 1, LAZY_FROM, 2 * LAZY_FROM - 1])
def test_one_that_differs_is_seen_wherever_it_is(odd, place):
    entries = run(2 * LAZY_FROM, worker="w")
    entries[place] = msgspec.structs.replace(entries[place], **odd)

    check(Events([JournalBatch(7, 1.25, MAIL, unpack_entries(pack_entries(entries)))]))


def test_small_batches_before_and_behind_a_large_one():
    sizes = [1, 3, 2 * LAZY_FROM, 1, LAZY_FROM, 2]

    check(
        Events(
            [
                JournalBatch(
                    number,
                    number + 0.5,
                    MAIL if number % 2 else HOOKS,
                    unpack_entries(pack_entries(run(size))),
                )
                for number, size in enumerate(sizes, 1)
            ]
        )
    )


def test_a_batch_that_begins_and_ends_in_its_middle():
    whole = [
        JournalBatch(number, 1.5, MAIL, unpack_entries(pack_entries(run(LAZY_FROM + 9))))
        for number in (7, 8, 9)
    ]
    events = Events.up_to_limit(whole, (7, 5), 2 * LAZY_FROM + 20).until("9.3")

    assert [batch.end for batch in events.batches] == [
        (7, LAZY_FROM + 9),
        (8, LAZY_FROM + 9),
        (9, 3),
    ]
    check(events)


def test_places_of_a_very_large_batch():
    check(Events([JournalBatch(7, 1.5, MAIL, run(70_000)).part(65_000, 70_000)]))


def test_entries_whose_last_fields_are_left_out():
    packed = msgspec.msgpack.encode(
        [["enqueue", "a", "k", None, "queued"], ["claim", "b", "k", "queued", "processing", 2, 8]]
    )

    check(Events([JournalBatch(7, 1.5, MAIL, unpack_entries(packed))]))


def test_no_events_are_no_rows():
    check(Events([]))


@pytest.fixture
def filled(queues: Any, clock: Any) -> Callable[..., Events]:
    queue = queues["mail"]
    queue.pause()
    queue.resume()
    queue.enqueue_many(range(5), priority=3)
    queue.enqueue(1, id="calls", callback_url="https://example.com/done")
    clock.advance(1.5)
    first, second, *others = queue.claim(7)
    queue.bury(first, "no")
    queue.snooze(second, 10)
    for job in others:
        queue.complete(job, 1)
    queues["hooks"].enqueue(1)
    return lambda after=None, limit=1000: queues.store.events(None, after, limit)


def test_the_journal_of_a_store(filled):
    events = filled()

    assert len({event.act for event in events}) >= 6
    assert pyarrow.Table.from_batches([events_batch(events)]).num_rows == len(events)
    check(events)


def test_the_journal_of_a_store_from_any_place(filled):
    for event in filled():
        check(filled(event.cursor, 3))
