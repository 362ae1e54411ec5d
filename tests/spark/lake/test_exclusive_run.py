"""One run of a lake at a time: who has it, how it is taken over, and how the other finds out."""

from __future__ import annotations

import subprocess
import sys
import threading

import msgspec
import pytest

from ackline.core.errors import StoreError
from ackline.spark.errors import LakeClaimed
from ackline.spark.lake import claim as claims
from ackline.spark.lake.claim import LakeClaim


class Watch:
    """A clock that goes on when someone waits; then something may happen."""

    def __init__(self, happens=lambda: None):
        self.now = 0.0
        self.happens = happens

    def __call__(self):
        return self.now

    def wait(self, seconds):
        self.now += seconds
        self.happens()


def claim_on(queues, watch=None, **values):
    watch = watch or Watch()
    claim = LakeClaim(queues, "the-lake", "/data/lake", clock=watch, pause=watch.wait)
    claim.holder = msgspec.structs.replace(claim.holder, **values)
    return claim


def test_a_run_that_gives_signs_of_life_keeps_the_lake(queues):
    first = claim_on(queues, host="elsewhere", pid=7, system="another", since=0.0)
    first.take()
    watch = Watch(first.beat)

    with pytest.raises(LakeClaimed) as caught:
        claim_on(queues, watch).take()

    message = "process 7 on elsewhere, since 1970-01-01 00:00:00 UTC"
    assert f"/data/lake ({message})" in str(caught.value)
    assert watch.now <= claims.BEAT
    first.check()


def test_a_run_that_gives_none_is_taken_over_and_finds_out(queues):
    first = claim_on(queues, system="another")
    first.take()
    watch = Watch()
    second = claim_on(queues, watch)

    second.take()

    assert claims.SILENCE <= watch.now < claims.SILENCE + 1
    second.check()
    for act in (first.check, first.beat):
        with pytest.raises(LakeClaimed, match="taken over"):
            act()
    first.release()
    second.check()


def test_a_process_that_is_gone_is_not_waited_for(queues):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    claim_on(queues, pid=gone.pid).take()
    watch = Watch()

    claim_on(queues, watch).take()

    assert watch.now == 0.0


def test_a_process_number_of_another_system_says_nothing(queues):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    claim_on(queues, pid=gone.pid, system="a container").take()
    watch = Watch()

    claim_on(queues, watch).take()

    assert watch.now >= claims.SILENCE


def test_a_run_that_has_ended_leaves_the_lake(queues):
    first, watch = claim_on(queues, system="another"), Watch()
    first.take()
    first.beat()
    first.release()

    claim_on(queues, watch).take()

    assert watch.now == 0.0


@pytest.mark.every_store
def test_of_two_that_find_it_dead_one_gets_it(queues):
    claim_on(queues, system="another").take()
    other = claim_on(queues)
    watch = Watch()

    def be_quicker():
        if watch.now >= claims.SILENCE:
            other.take()
            other.beat()

    watch.happens = be_quicker
    with pytest.raises(LakeClaimed, match="at work"):
        claim_on(queues, watch).take()
    other.check()


def test_signs_of_life_are_given_until_the_end(queues, monkeypatch):
    monkeypatch.setattr(claims, "BEAT", 0.01)
    first = claim_on(queues)
    first.take()
    first.keep()
    with pytest.raises(LakeClaimed, match="at work"):
        LakeClaim(queues, "the-lake", "/data/lake").take()
    first.release()

    claim_on(queues).take()


@pytest.mark.parametrize("error", [OSError("no route"), StoreError("away"), RuntimeError("?")])
def test_signs_of_life_go_on_after_an_error(queues, monkeypatch, error):
    monkeypatch.setattr(claims, "BEAT", 0.01)
    claim, errors, again = claim_on(queues), [error], threading.Event()
    beat = claim.beat

    def beat_or_fail():
        if errors:
            raise errors.pop()
        beat()
        again.set()

    claim.beat = beat_or_fail
    claim.take()
    claim.keep()

    assert again.wait(10)
    claim.release()
