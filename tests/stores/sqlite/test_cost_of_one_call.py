"""What one enqueue costs, counted: most producers enqueue one job at a time."""

from __future__ import annotations

import fcntl
import itertools
import os
from collections import Counter

import apsw
import pytest
from tests.stores.sqlite.conftest import QUEUE

from ackline.core.job import Draft
from ackline.stores.sqlite import disk_space
from ackline.stores.sqlite.io import writer as writer_module
from ackline.stores.sqlite.sql import statements


def enqueue(store, n):
    store.enqueue(QUEUE, [Draft(f"id{n}", "mail", b"1", assume_new=True)])


@pytest.fixture
def writer(store, writer, monkeypatch):
    """The connection that writes; the queue and the list of its kind already exist."""
    monkeypatch.setattr(disk_space, "CHECK_INTERVAL", 1000.0)
    monkeypatch.setattr(writer_module, "FILE_CHECK_INTERVAL", 1000.0)
    enqueue(store, 0)
    return writer


def test_it_takes_few_statements(store, writer):
    names = {text: name for name, text in statements().items()}
    ran: list[str] = []
    writer.trace_v2(apsw.SQLITE_TRACE_STMT, lambda event: ran.append(event["sql"]))

    enqueue(store, 1)
    writer.trace_v2(0)

    assert [names.get(text, text) for text in ran] == [
        "BEGIN IMMEDIATE",
        "add_job",
        "add_state",
        "add_batch",
        *["change_count"] * 3,
        "COMMIT",
    ]
    assert "RETURNING" not in "".join(ran), "it costs as much as several statements"


def test_it_changes_few_pages(store, writer):
    """A job, its state and their indexes, a batch of the journal, the counts."""
    lengths: list[int] = []

    def note(_connection, _name, pages):
        lengths.append(pages)
        return apsw.SQLITE_OK

    writer.set_wal_hook(note)

    for n in range(1, 6):
        enqueue(store, n)

    assert [after - before for before, after in itertools.pairwise(lengths)] == [6] * 4


def test_it_makes_few_system_calls_of_its_own(store, writer, monkeypatch):
    calls = Counter[str]()

    def count(module, name):
        call = getattr(module, name)

        def counted(*args):
            calls[name] += 1
            return call(*args)

        monkeypatch.setattr(module, name, counted)

    count(os, "stat")
    count(os, "statvfs")
    count(os, "open")
    count(fcntl, "flock")

    enqueue(store, 1)

    # The directory of the listeners; the write lock, acquired and released.
    assert calls == {"stat": 1, "flock": 2}
