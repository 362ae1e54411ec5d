"""Interrupts: only the interrupted caller may notice."""

from __future__ import annotations

import signal

import pytest
from tests.stores.sqlite.conftest import QUEUE, OperationGroup, drafts

from ackline.core.errors import StoreUnavailable


class Thrown(BaseException):
    pass


def run_all(operations):
    return [operation(None) for operation in operations]


def throw(_tx):
    raise Thrown


def test_followers_of_an_interrupted_leader_get_an_error_and_later_callers_go_on():
    group = OperationGroup(run_all)
    group.add("leader", throw)
    group.add("follower", lambda tx: "done")

    answers = group.finish()

    assert isinstance(answers["leader"], Thrown)
    assert isinstance(answers["follower"], StoreUnavailable)
    assert "send it again" in str(answers["follower"])
    assert group.group_commit.run(lambda tx: "again") == "again"


def test_a_caller_interrupted_while_waiting_is_removed():
    group, ran = OperationGroup(run_all), []
    previous = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(KeyboardInterrupt):
            group.group_commit.run(lambda tx: ran.append("interrupted"))
    finally:
        signal.signal(signal.SIGALRM, previous)
    assert group.group_commit.waiting == 0
    group.add("next", lambda tx: "done")

    answers = group.finish()

    assert ran == []
    assert answers == {"first": True, "next": "done"}


def test_an_interrupted_write_leaves_nothing_and_the_next_one_goes_on(store, engine):
    def write(tx):
        tx.execute("INSERT INTO key_value VALUES ('half', x'', x'', 1)")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        engine.write(write)

    assert store.read_keys("half", (), 100) == []
    assert store.enqueue(QUEUE, drafts(1))[0].accepted
    assert engine.write(lambda tx: "again") == "again"
