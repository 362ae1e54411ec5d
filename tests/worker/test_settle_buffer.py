"""When the claim loop is called to settle outcomes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ackline.worker.leased_jobs import SettleBuffer

ENOUGH = 3


class BufferFixture:
    """An outbox, how often the claim loop was called, and whether jobs wait to begin."""

    def __init__(self) -> None:
        self.calls = 0
        self.idle = False
        self.buffer = SettleBuffer(ENOUGH, lambda: self.idle)
        self.buffer.on_ready(self._call)

    def _call(self) -> None:
        self.calls += 1

    def put(self, count: int) -> None:
        for _ in range(count):
            held: Any = SimpleNamespace(claim_settling=lambda: True, settled_in_transaction=None)
            transition: Any = None
            self.buffer.put(held, transition)


@pytest.fixture
def scene() -> BufferFixture:
    return BufferFixture()


def test_the_first_one_is_told_of_so_that_it_does_not_wait_long(scene):
    scene.put(1)

    assert scene.calls == 1


def test_the_next_ones_wait_for_company(scene):
    scene.put(1)
    scene.buffer.rearm()
    scene.put(ENOUGH - 2)

    assert scene.calls == 1


def test_the_last_one_of_all_does_not_wait(scene):
    scene.put(1)
    scene.buffer.rearm()
    scene.idle = True
    scene.put(1)

    assert scene.calls == 2


def test_a_claim_loop_that_was_called_is_not_called_for_each_of_those_that_follow(scene):
    scene.put(5 * ENOUGH)

    assert scene.calls == 1


def test_what_comes_after_it_has_begun_to_look_is_worth_another_call(scene):
    scene.put(ENOUGH)
    scene.buffer.rearm()
    scene.put(1)

    assert scene.calls == 2
