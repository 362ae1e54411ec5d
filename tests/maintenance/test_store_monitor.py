"""A store's health issues are logged once, and again if they last."""

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
def set_issues(queue, monkeypatch):
    """Make the store report these health issues."""
    info = queue.store.info

    def report(*issues):
        monkeypatch.setattr(
            queue.store, "info", lambda: msgspec.structs.replace(info(), issues=issues)
        )

    return report


@pytest.fixture
def log_lines(caplog):
    caplog.set_level(logging.WARNING, "ackline")
    return lambda: [message.split(": ", 1)[1] for message in caplog.messages]


def test_an_issue_is_logged_once_while_it_lasts(queue, set_issues, log_lines):
    monitor = StoreMonitor([queue], 60.0)
    set_issues(OLD)
    monitor.step()
    set_issues(msgspec.structs.replace(OLD, message="a session is older"))
    monitor.step()

    assert log_lines() == ["a session is old. end it"]


def test_it_is_logged_again_when_it_comes_back(queue, set_issues, log_lines):
    monitor = StoreMonitor([queue], 60.0)
    for issues in ([OLD], [], [OLD]):
        set_issues(*issues)
        monitor.step()

    assert len(log_lines()) == 2


def test_it_is_logged_again_when_it_lasts_long(queue, set_issues, log_lines, monkeypatch):
    monkeypatch.setattr(module, "LOG_INTERVAL", 0.0)
    monitor = StoreMonitor([queue], 60.0)
    set_issues(OLD)
    monitor.step()
    monitor.step()

    assert len(log_lines()) == 2


def test_an_issue_that_is_not_critical_is_not_logged(queue, set_issues, log_lines):
    set_issues(msgspec.structs.replace(OLD, critical=False))
    StoreMonitor([queue], 60.0).step()

    assert log_lines() == []


def test_maintenance_monitors_each_store_once(queue):
    loops = [loop for loop in Maintenance([queue, queue]).loops if loop.name == "store monitor"]

    assert [loop.queues for loop in loops] == [(queue,)]
