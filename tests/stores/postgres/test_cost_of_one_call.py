"""What one call costs, counted: most producers enqueue one job, and wait for it to start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.stores.postgres.actions import put, take

from ackline import Queue
from ackline.core.job import Options, QueueKey
from ackline.stores.postgres import PostgresStore

AT_ONCE = ["begin_write", "claim_jobs", "next_times", "commit", "notify", "→"]


def test_an_enqueue_sends_few_statements_in_one_message(
    work: Queue[Any, Any], sent: list[str]
) -> None:
    """They are sent together: the server is woken once."""
    for n in range(3):  # creates the queue and its kind, and prepares the statements
        work.enqueue(n)
    sent.clear()

    work.enqueue(1)

    assert sent == ["begin_write", "insert_one", "append_journal", "commit", "notify", "→"]


def test_a_claim_of_plain_jobs_is_one_message(
    store: PostgresStore, queue: QueueKey, sent: list[str]
) -> None:
    put(store, queue, "a", "b", "c")
    take(store, queue, 1)  # also scans all leases, as once a second
    sent.clear()

    assert len(take(store, queue, 1)) == 1

    assert sent == AT_ONCE


def test_other_jobs_are_claimed_in_steps_until_plain_ones_come(
    store: PostgresStore, queue: QueueKey, sent: list[str]
) -> None:
    put(store, queue, "plain")
    take(store, queue, 1)
    put(store, queue, "a", options=Options(group="g"))
    put(store, queue, "b", options=Options(lease=5.0))
    put(store, queue, "c", "d")

    ways = [_claims_at_once(store, queue, sent) for _ in range(4)]

    # The first is tried in one statement, then done in steps; so is the first plain one after it.
    assert ways == [[True, False], [False], [False], [True]]


def _claims_at_once(store: PostgresStore, queue: QueueKey, sent: list[str]) -> Sequence[bool]:
    sent.clear()
    assert len(take(store, queue, 1)) == 1
    return [name == "claim_jobs" for name in sent if name in ("claim_jobs", "take_jobs")]


def test_claims_in_one_statement_and_in_steps_write_the_same_journal(
    store: PostgresStore, queue: QueueKey
) -> None:
    put(store, queue, "short", "x" * 31, "x" * 32, "ä" * 100, "x" * 255, "ü" * 128)
    apart = QueueKey(queue.tenant, "apart")
    put(store, apart, "short", "x" * 31, "x" * 32, "ä" * 100, "x" * 255, "ü" * 128)
    put(store, apart, "last", options=Options(lease=5.0))

    [at_once, in_steps] = [take(store, key) for key in (queue, apart)]

    [left, right] = [_claims_in_journal(store, key) for key in (queue, apart)]
    assert left == right[:-1]
    assert [job.id for job in at_once] == [job.id for job in in_steps[:-1]]


def _claims_in_journal(store: PostgresStore, queue: QueueKey) -> list[tuple[Any, ...]]:
    return [
        (event.act, event.id, event.kind, event.source, event.to, event.attempt, event.worker)
        for event in store.events(queue, None, 100)
        if event.act == "claim"
    ]
