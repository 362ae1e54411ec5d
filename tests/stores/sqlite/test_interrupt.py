"""Interrupts: only the interrupted caller may notice."""

from __future__ import annotations

import signal

import pytest
from tests.stores.sqlite.conftest import QUEUE, Crowd, drafts

from ackline.core.errors import StoreUnavailable


class Thrown(BaseException):
    pass


def run_all(operations):
    return [operation(None) for operation in operations]


def throw(_tx):
    raise Thrown


def test_those_whose_leader_was_interrupted_are_told_and_others_go_on():
    crowd = Crowd(run_all)
    crowd.add("leader", throw)
    crowd.add("follower", lambda tx: "done")

    answers = crowd.finish()

    assert isinstance(answers["leader"], Thrown)
    assert isinstance(answers["follower"], StoreUnavailable)
    assert "send it again" in str(answers["follower"])
    assert crowd.group.run(lambda tx: "again") == "again"


def test_whoever_is_interrupted_while_waiting_leaves_the_line():
    crowd, ran = Crowd(run_all), []
    previous = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(KeyboardInterrupt):
            crowd.group.run(lambda tx: ran.append("interrupted"))
    finally:
        signal.signal(signal.SIGALRM, previous)
    assert crowd.group.waiting == 0
    crowd.add("next", lambda tx: "done")

    answers = crowd.finish()

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
