"""When the claim loop is called to settle outcomes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ackline.worker.leased_jobs import SettleBuffer

ENOUGH = 3


class BufferFixture:
    """A settle buffer, how often the claim loop was woken, and whether jobs are buffered."""

    def __init__(self) -> None:
        self.calls = 0
        self.idle = False
        self.buffer = SettleBuffer(ENOUGH, lambda: self.idle)
        self.buffer.on_ready(self._call)

    def _call(self) -> None:
        self.calls += 1

    def put(self, count: int) -> None:
        for _ in range(count):
            job: Any = SimpleNamespace(mark_settling=lambda: True, settled_in_transaction=None)
            transition: Any = None
            self.buffer.put(job, transition)


@pytest.fixture
def scene() -> BufferFixture:
    return BufferFixture()


def test_the_first_outcome_wakes_the_claim_loop(scene):
    scene.put(1)

    assert scene.calls == 1


def test_the_next_outcomes_wait_for_a_batch(scene):
    scene.put(1)
    scene.buffer.rearm()
    scene.put(ENOUGH - 2)

    assert scene.calls == 1


def test_the_last_outcome_does_not_wait(scene):
    scene.put(1)
    scene.buffer.rearm()
    scene.idle = True
    scene.put(1)

    assert scene.calls == 2


def test_a_claim_loop_is_woken_once_for_many_outcomes(scene):
    scene.put(5 * ENOUGH)

    assert scene.calls == 1


def test_outcomes_after_rearm_wake_it_again(scene):
    scene.put(ENOUGH)
    scene.buffer.rearm()
    scene.put(1)

    assert scene.calls == 2
