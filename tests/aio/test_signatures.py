"""The asyncio face has every method of the sync one, with the same signature."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from ackline import Queue, Queues
from ackline.aio import AsyncJournalReader, AsyncQueue, AsyncQueues
from ackline.queue import JournalReader

INNER = {
    # What the worker, maintenance and this face build upon; not for users.
    "record_callbacks",
    "from_receipt",
    "apply",
    "claim_from",
    "claim_records",
    "claim_request",
    "complete_async",
    "enqueue_batches",
    "expire",
    "store_drafts",
    "settle",
    "settle_async",
    "waiter",
    "wrap",
}
PLAIN = {"every", "handler", "name", "events", "queue", "reader"}
"""Not awaited: they do no I/O, or answer an async iterator."""


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def signature(kind: type, name: str) -> list[tuple[str, Any, Any]]:
    function = inspect.getattr_static(kind, name)
    parameters = inspect.signature(function).parameters.values()
    return [(parameter.name, parameter.kind, parameter.default) for parameter in parameters]


NAMES = sorted(public(Queue) - INNER)


def test_every_name_is_there_and_no_other() -> None:
    assert public(AsyncQueue) == {*NAMES}


@pytest.mark.parametrize("name", [name for name in NAMES if name != "name"])
def test_signatures_are_the_same(name: str) -> None:
    assert signature(AsyncQueue, name) == signature(Queue, name)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in PLAIN])
def test_what_does_io_is_awaited(name: str) -> None:
    assert inspect.iscoroutinefunction(inspect.getattr_static(AsyncQueue, name))


@pytest.mark.parametrize("name", ["read", "save", "forget"])
def test_the_signatures_of_readers_are_the_same(name: str) -> None:
    assert signature(AsyncJournalReader, name) == signature(JournalReader, name)
    assert inspect.iscoroutinefunction(inspect.getattr_static(AsyncJournalReader, name))


def test_readers_have_the_same_names() -> None:
    assert public(AsyncJournalReader) == public(JournalReader)


@pytest.mark.parametrize("name", ["queue", "describe", "info", "close"])
def test_the_signatures_of_queues_are_the_same(name: str) -> None:
    assert signature(AsyncQueues, name) == signature(Queues, name)
