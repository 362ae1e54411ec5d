"""What a store complains of comes into the log: once, and again if it lasts."""

from __future__ import annotations

import logging

import msgspec
import pytest

from ackline.maintenance import Maintenance, StoreMonitor
from ackline.maintenance import store_monitor as module
from ackline.stores.contract import HealthIssue

OLD = HealthIssue("snapshot", "a session is old", "end it")


@pytest.fixture
def queue(queues):
    return queues["email"]


@pytest.fixture
def complain(queue, monkeypatch):
    """Let the store have these troubles."""
    info = queue.store.info

    def have(*troubles):
        monkeypatch.setattr(
            queue.store, "info", lambda: msgspec.structs.replace(info(), troubles=troubles)
        )

    return have


@pytest.fixture
def told(caplog):
    caplog.set_level(logging.WARNING, "ackline")
    return lambda: [message.split(": ", 1)[1] for message in caplog.messages]


def test_a_trouble_is_told_once_while_it_lasts(queue, complain, told):
    watcher = StoreMonitor([queue], 60.0)
    complain(OLD)
    watcher.step()
    complain(msgspec.structs.replace(OLD, says="a session is older"))
    watcher.step()

    assert told() == ["a session is old. end it"]


def test_it_is_told_again_when_it_comes_back(queue, complain, told):
    watcher = StoreMonitor([queue], 60.0)
    for troubles in ([OLD], [], [OLD]):
        complain(*troubles)
        watcher.step()

    assert len(told()) == 2


def test_it_is_told_again_when_it_lasts_long(queue, complain, told, monkeypatch):
    monkeypatch.setattr(module, "LOG_INTERVAL", 0.0)
    watcher = StoreMonitor([queue], 60.0)
    complain(OLD)
    watcher.step()
    watcher.step()

    assert len(told()) == 2


def test_what_is_only_good_to_know_is_not_told(queue, complain, told):
    complain(msgspec.structs.replace(OLD, grave=False))
    StoreMonitor([queue], 60.0).step()

    assert told() == []


def test_maintenance_watches_each_store_once(queue):
    loops = [loop for loop in Maintenance([queue, queue]).loops if loop.name == "watcher"]

    assert [loop.queues for loop in loops] == [(queue,)]
