"""Listeners are notified at once, not only when they poll."""

from collections.abc import Callable

import pytest
from tests.stores.postgres.actions import put, take
from tests.stores.postgres.io.test_server_restarts import settle

from ackline.core.config import DEFAULTS, QueueSettings
from ackline.core.job import Draft, Options, QueueKey, Record
from ackline.core.lifecycle import cancel, complete, move, release, request_cancel, snooze
from ackline.stores.contract import Store, Topic

SOON = 2.0
QUIET = 0.3
OTHER = QueueKey("default", "other")

Act = Callable[[Store, QueueKey], object]


def enqueue(store: Store, queue: QueueKey) -> None:
    put(store, queue, "new")


def enqueue_unseen(store: Store, queue: QueueKey) -> None:
    put(store, queue, "new", assume_new=True)


def give_back(store: Store, queue: QueueKey) -> None:
    store.apply(queue, [release(_ungrouped(store, queue), DEFAULTS)])


def put_off(store: Store, queue: QueueKey) -> None:
    store.apply(queue, [snooze(_ungrouped(store, queue), 60.0, DEFAULTS)])


def _ungrouped(store: Store, queue: QueueKey) -> Record:
    """A job without a group: its end frees no slot."""
    return next(job for job in take(store, queue) if job.id == "a")


def promote(store: Store, queue: QueueKey) -> None:
    assert store.promote(queue, 10)


def bring_in(store: Store, queue: QueueKey) -> None:
    put(store, OTHER, "moved")
    assert store.apply(OTHER, [move("moved", queue)])[0].applied


def free_a_slot(store: Store, queue: QueueKey) -> None:
    jobs = [job for job in take(store, queue) if job.id.startswith("grouped")]
    assert len(jobs) == 1
    store.apply(queue, [complete(job, None, DEFAULTS) for job in jobs])


def configure(store: Store, queue: QueueKey) -> None:
    store.configure(queue, QueueSettings(group_limit=2))


def ask_to_stop(store: Store, queue: QueueKey) -> None:
    [job, *_] = take(store, queue)
    assert store.apply(queue, [request_cancel(job.id)])[0].applied


def end(store: Store, queue: QueueKey) -> None:
    assert store.apply(queue, [cancel("a", DEFAULTS)])[0].applied


def look(store: Store, queue: QueueKey) -> None:
    store.describe("default")


TOLD: list[tuple[Topic, Act]] = [
    ("ready", enqueue),
    ("ready", enqueue_unseen),
    ("ready", give_back),
    ("ready", put_off),
    ("ready", promote),
    ("ready", bring_in),
    ("ready", free_a_slot),
    ("ready", configure),
    ("cancel_requests", ask_to_stop),
    ("finished", end),
    ("changes", enqueue),
    ("changes", end),
]

UNTOLD: list[tuple[Topic, Act]] = [
    ("ready", look),
    ("ready", end),
    ("finished", enqueue),
    ("cancel_requests", enqueue),
]


def prepare(store: Store, queue: QueueKey, act: Act) -> None:
    grouped = Options(group="g")
    drafts = [Draft(f"grouped {n}", "mail", b"{}", options=grouped) for n in range(2)]
    store.enqueue(queue, [Draft("a", "mail", b"{}"), *drafts])
    if act is promote:
        # Not for other acts: a claim promotes as well, and notifies of it.
        put(store, queue, "due", delay=0.01)


def names(case: Topic | Act) -> str:
    return case if isinstance(case, str) else case.__name__


@pytest.mark.parametrize(("topic", "act"), TOLD, ids=names)
def test_listeners_are_notified(store: Store, queue: QueueKey, topic: Topic, act: Act) -> None:
    prepare(store, queue, act)
    with store.listen([queue], topic) as listener:
        settle(listener)
        act(store, queue)

        assert listener.wait(SOON)


@pytest.mark.parametrize(("topic", "act"), UNTOLD, ids=names)
def test_control_listeners_of_other_topics_are_not_notified(
    store: Store, queue: QueueKey, topic: Topic, act: Act
) -> None:
    prepare(store, queue, act)
    with store.listen([queue], topic) as listener:
        settle(listener)
        act(store, queue)

        assert not listener.wait(QUIET)


def test_listeners_for_changes_are_notified_of_a_claim_only_if_it_claims_jobs(
    store: Store, queue: QueueKey
) -> None:
    put(store, queue, "a")
    with store.listen([queue], "changes") as listener:
        settle(listener)

        assert take(store, queue)
        assert listener.wait(SOON)
        settle(listener)

        assert not take(store, queue)
        assert not listener.wait(QUIET)
