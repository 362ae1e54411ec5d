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
def fixture() -> BufferFixture:
    return BufferFixture()


def test_the_first_outcome_wakes_the_claim_loop(fixture):
    fixture.put(1)

    assert fixture.calls == 1


def test_the_next_outcomes_wait_for_a_batch(fixture):
    fixture.put(1)
    fixture.buffer.rearm()
    fixture.put(ENOUGH - 2)

    assert fixture.calls == 1


def test_the_last_outcome_does_not_wait(fixture):
    fixture.put(1)
    fixture.buffer.rearm()
    fixture.idle = True
    fixture.put(1)

    assert fixture.calls == 2


def test_a_claim_loop_is_woken_once_for_many_outcomes(fixture):
    fixture.put(5 * ENOUGH)

    assert fixture.calls == 1


def test_outcomes_after_rearm_wake_it_again(fixture):
    fixture.put(ENOUGH)
    fixture.buffer.rearm()
    fixture.put(1)

    assert fixture.calls == 2
