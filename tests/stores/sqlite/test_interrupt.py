"""Interrupts: they may come at any moment, and only the interrupted caller may notice."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ackline.errors import StoreError
from ackline.stores.sqlite import group_commit
from ackline.stores.sqlite.group_commit import GroupCommit

ROOT = Path(__file__).parents[3]


def test_a_storm_of_interrupts_stops_nobody_else(tmp_path):
    # In a process of its own: an interrupt may also hit what is not ours, such as the test runner.
    done = subprocess.run(
        [sys.executable, "-m", "tests.stores.sqlite.storm", str(tmp_path / "jobs.db")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


class Thrown(BaseException):
    pass


def test_those_whose_leader_was_thrown_out_are_told(monkeypatch):
    """Also while others lead in the meantime."""
    monkeypatch.setattr(group_commit, "LOOK_EVERY", 0.05)
    inside, go_on, answers = threading.Event(), threading.Event(), {}

    def hold(tx):
        inside.set()
        assert go_on.wait(10)

    def commit(operations):
        return [operation(None) for operation in operations]

    group = GroupCommit(commit)

    def run(name, operation):
        try:
            answers[name] = group.run(operation)
        except BaseException as error:
            answers[name] = error

    def throw(tx):
        # Not even the last words are spoken.
        monkeypatch.setattr(group, "_hand_over", lose_the_word)
        raise Thrown

    def lose_the_word(*_):
        monkeypatch.delattr(group, "_hand_over")
        raise Thrown

    threads = [threading.Thread(target=run, args=("first", hold))]
    threads[0].start()
    assert inside.wait(10)
    for name, operation in (("leader", throw), ("follower", lambda tx: "done")):
        threads.append(threading.Thread(target=run, args=(name, operation)))
        threads[-1].start()
        while group.waiting < len(threads) - 1:
            pass
    go_on.set()
    threads[1].join(10)
    busy = threading.Event()
    others = threading.Thread(target=lambda: [group.run(lambda tx: 1) for _ in wait_for(busy)])
    others.start()
    threads[2].join(10)
    busy.set()
    others.join(10)

    assert isinstance(answers["leader"], Thrown)
    assert isinstance(answers["follower"], StoreError)
    assert group.run(lambda tx: "again") == "again"


def wait_for(event):
    while not event.is_set():
        yield


def test_an_interrupt_reaches_the_caller_even_if_its_own_part_is_done():
    def commit(operations):
        for operation in operations:
            operation(None)
        raise Thrown

    with pytest.raises(Thrown):
        GroupCommit(commit).run(lambda tx: 1)
