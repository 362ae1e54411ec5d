"""Interrupts: they may come at any moment, and only the interrupted caller may notice."""

from __future__ import annotations

import random
import signal
import threading
import time

import pytest
from tests.stores.sqlite.conftest import QUEUE, drafts

from ackline.errors import StoreError
from ackline.stores.sqlite import group_commit
from ackline.stores.sqlite.group_commit import GroupCommit


def test_a_storm_of_interrupts_stops_nobody_else(store, monkeypatch):
    monkeypatch.setattr(group_commit, "LOOK_EVERY", 0.05)
    stop, beats, errors = threading.Event(), [0, 0], []

    def write(index):
        while not stop.is_set():
            try:
                store.enqueue(QUEUE, drafts(1))
            except StoreError:
                pass
            except BaseException as error:
                errors.append(error)
            beats[index] += 1

    threads = [threading.Thread(target=write, args=(n,), daemon=True) for n in range(2)]
    for thread in threads:
        thread.start()
    interrupts = storm(store, 1.5)
    seen = list(beats)
    time.sleep(0.5)
    stop.set()
    for thread in threads:
        thread.join(10)

    assert interrupts > 20
    assert errors == []
    assert not any(thread.is_alive() for thread in threads)
    assert all(after > before for after, before in zip(beats, seen, strict=True))
    assert store.enqueue(QUEUE, drafts(1, 1))[0].accepted
    assert store._engine._turn.take(0)
    store._engine._turn.leave()


def storm(store, seconds) -> int:
    """Write while alarms interrupt at random moments; answers how many did."""
    armed, interrupts = False, 0

    def on_alarm(*_):
        if armed:
            raise KeyboardInterrupt

    previous = signal.signal(signal.SIGALRM, on_alarm)
    end = time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            signal.setitimer(signal.ITIMER_REAL, random.uniform(0.00005, 0.003))
            try:
                armed = True
                # Bounded: the alarm may have come before it was armed.
                for _ in range(100):
                    store.enqueue(QUEUE, drafts(1))
            except KeyboardInterrupt:
                interrupts += 1
            except StoreError:
                pass
            armed = False
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    return interrupts


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
