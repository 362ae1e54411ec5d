"""Interrupts: only the interrupted caller may notice."""

from __future__ import annotations

import signal
import threading

import pytest
from tests.stores.sqlite.conftest import QUEUE, drafts
from tests.waiting import until

from ackline.errors import StoreUnavailable
from ackline.stores.sqlite.group_commit import GroupCommit


class Thrown(BaseException):
    pass


def run_all(operations):
    return [operation(None) for operation in operations]


class Crowd:
    """A group whose first operation is held open while others pile up behind it."""

    def __init__(self):
        self.group = GroupCommit(run_all)
        self.inside, self.go_on = threading.Event(), threading.Event()
        self.answers, self.threads = {}, []
        self._start("first", self._hold)
        assert self.inside.wait(10)

    def _hold(self, _tx):
        self.inside.set()
        return self.go_on.wait(10)

    def _start(self, name, operation):
        def run():
            try:
                self.answers[name] = self.group.run(operation)
            except BaseException as error:
                self.answers[name] = error

        self.threads.append(threading.Thread(target=run))
        self.threads[-1].start()

    def add(self, name, operation):
        self._start(name, operation)
        until(lambda: self.group.waiting == len(self.threads) - 1)

    def finish(self):
        self.go_on.set()
        for thread in self.threads:
            thread.join(10)
        return self.answers


def throw(_tx):
    raise Thrown


def test_those_whose_leader_was_interrupted_are_told_and_others_go_on():
    crowd = Crowd()
    crowd.add("leader", throw)
    crowd.add("follower", lambda tx: "done")

    answers = crowd.finish()

    assert isinstance(answers["leader"], Thrown)
    assert isinstance(answers["follower"], StoreUnavailable)
    assert "send it again" in str(answers["follower"])
    assert crowd.group.run(lambda tx: "again") == "again"


def test_whoever_is_interrupted_while_waiting_leaves_the_line():
    crowd, ran = Crowd(), []
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


def test_an_interrupted_write_leaves_nothing_and_the_next_one_goes_on(store):
    def write(tx):
        tx.execute("INSERT INTO keyval VALUES ('half', x'', x'', 1)")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store._engine.write(write)

    assert store.read_keys("half", (), 100) == []
    assert store.enqueue(QUEUE, drafts(1))[0].accepted
