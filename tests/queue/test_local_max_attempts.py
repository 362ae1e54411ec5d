"""Attempts that only one process knows of are noted in the store before it goes by them."""

from __future__ import annotations

from typing import Any

import pytest

import ackline
from ackline.core.config import Policy, ResolvedPolicy
from ackline.core.errors import StoreError
from ackline.queue import Queue
from ackline.queue.metadata.local_max_attempts import ALL_KINDS, load_max_attempts
from ackline.queues import Queues
from ackline.stores.memory import MemoryStore


@pytest.fixture
def queues() -> Queues:
    return ackline.open("memory://")


def process(queues: Queues, **handler: Any) -> Queue[Any, Any]:
    """The queue as another process has it, with a handler of its own."""
    queue = queues.queue("work")
    queue.handler("mail", **handler)(print)
    return queue


def decide(queue: Queue[Any, Any]) -> ResolvedPolicy:
    """What a process goes by when a job has failed."""
    queue.enqueue(1, kind="mail")
    [job] = queue.claim(1)
    return queue.policies.of(job.record)


def recorded(queues: Queues) -> dict[str, int]:
    return dict(load_max_attempts(queues.store, queues["work"].key))


def test_what_is_stored_needs_no_note(queues: Queues) -> None:
    queues["work"].configure(policy=Policy(max_attempts=9), kinds={"mail": Policy(max_attempts=8)})

    assert decide(process(queues)).max_attempts == 8
    assert recorded(queues) == {}


def test_the_defaults_of_a_service(queues: Queues) -> None:
    queue = queues.queue("work")
    queue.policies.defaults = ResolvedPolicy(max_attempts=5)

    assert decide(queue).max_attempts == 5
    assert recorded(queues) == {ALL_KINDS: 5}


@pytest.mark.parametrize(
    ("handler", "attempts"),
    [({"max_attempts": 5}, 5), ({"backoff": [1, 5, 30]}, 4), ({"timeout": 60}, 0)],
    ids=str,
)
def test_what_a_handler_was_given(queues: Queues, handler: dict[str, Any], attempts: int) -> None:
    decide(process(queues, **handler))

    assert recorded(queues) == {"mail": attempts}


def test_the_most_stays_while_processes_are_replaced(queues: Queues) -> None:
    for attempts in (5, 3, 4):
        process(queues, max_attempts=attempts).policies.publish()

    assert recorded(queues) == {"mail": 5}
    assert queues["work"].settings().kinds["mail"].max_attempts == 4


def test_so_does_what_an_earlier_version_has_published(queues: Queues) -> None:
    queues["work"].configure(kinds={"mail": Policy(max_attempts=5, from_handler=True)})

    process(queues).policies.publish()

    assert recorded(queues) == {"mail": 5}
    assert queues["work"].settings().kinds == {}


def test_it_is_noted_anew_after_the_queue_was_dropped(queues: Queues) -> None:
    queue = process(queues, max_attempts=5)
    decide(queue)
    queues["work"].drop(force=True)
    assert recorded(queues) == {}

    queue.policies.settings(max_age=0)
    decide(queue)

    assert recorded(queues) == {"mail": 5}


class FullStore(MemoryStore):
    """Takes no notes."""

    def write_keys(self, tenant: Any, writes: Any) -> Any:
        raise StoreError("no more keys")


def test_a_store_that_takes_no_note_takes_outcomes() -> None:
    assert decide(process(Queues(FullStore()), max_attempts=5)).max_attempts == 5
