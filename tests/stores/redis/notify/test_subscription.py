"""A subscription whose connection or server fails misses nothing."""

from __future__ import annotations

import time

import pytest
from tests.harness.servers.redis import RedisServer
from tests.stores.redis.conftest import QUEUE, SOON, drafts
from tests.stores.redis.notify.test_listeners import descriptors, subscribers

from ackline.core.job import QueueKey
from ackline.stores.contract import Subject, Subscription

MANY = [QueueKey("default", f"queue {n}") for n in range(2500)]


def is_notified_of(subscription: Subscription, *subjects: Subject) -> bool:
    missing, until = set(subjects), time.monotonic() + SOON
    while missing and time.monotonic() < until:
        notified = subscription.wait(until - time.monotonic())
        missing = set() if notified is None else missing.difference(notified)
    return not missing


def until_lost(subscription: Subscription) -> bool:
    """Wait until it reports that it may have missed something."""
    until = time.monotonic() + SOON
    while time.monotonic() < until:
        if subscription.wait(0.1) is None:
            return True
    return False


@pytest.fixture
def subscription(store):
    with store.subscribe() as subscription:
        yield subscription


def test_a_cut_connection_is_restored_with_all_channels(store, client, subscription):
    subscription.add((queue, "ready") for queue in MANY)
    assert is_notified_of(subscription, *((queue, "ready") for queue in MANY))

    client.client_kill_filter(_type="pubsub")

    assert until_lost(subscription)
    store.enqueue(MANY[-1], drafts(1))
    assert is_notified_of(subscription, (MANY[-1], "ready"))


def test_subjects_added_during_an_outage_are_notified_after_it(open_store):
    with RedisServer() as server:
        store = open_store(server.url)
        with store.subscribe() as subscription:
            subscription.add([(QUEUE, "changes")])
            assert is_notified_of(subscription, (QUEUE, "changes"))
            server.kill()
            subscription.wait(0.2)
            subscription.add([(MANY[0], "changes")])
            subscription.wait(0.2)
            server.restart()

            assert is_notified_of(subscription, (MANY[0], "changes"))
            store.enqueue(QUEUE, drafts(1))
            assert is_notified_of(subscription, (QUEUE, "changes"))
        store.close()


def test_any_number_of_subjects_takes_one_connection(store, client, subscription):
    before = descriptors()

    for queue in MANY:
        subscription.add([(queue, "ready"), (queue, "changes")])
    assert is_notified_of(subscription, *((queue, "changes") for queue in MANY))

    assert subscribers(client) == 1
    assert descriptors() - before <= 2, "the others are for scripts"


def test_what_was_removed_is_not_subscribed_to(client, prefix, subscription):
    subscription.add((queue, "ready") for queue in MANY)
    assert is_notified_of(subscription, *((queue, "ready") for queue in MANY))
    held = len(client.pubsub_channels(f"{prefix}:*"))

    subscription.remove((queue, "ready") for queue in MANY)
    subscription.wait(0.01)

    assert held == len(MANY) + 1
    assert len(client.pubsub_channels(f"{prefix}:*")) == 1
