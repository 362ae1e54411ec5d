"""Settling by hand: what a heartbeat sees meanwhile, and what is left when it is refused."""

from typing import Any

import pytest

import ackline
from ackline import Job, LeaseLost
from ackline.core.events import Act
from ackline.core.job import State
from ackline.core.lifecycle import Transition, Verdict, complete, extend
from ackline.queue.settle import RETRY_DELAYS, settle


@pytest.fixture
def job() -> Job[Any]:
    queue = ackline.open("memory://")["work"]
    queue.enqueue(1)
    return queue.claim()[0]


def step_of(job: Job[Any]) -> Transition:
    return complete(job.record, None, ackline.open("memory://")["work"].policies.of(job.record))


def test_a_heartbeat_knows_of_the_transaction_before_the_step_is_sent(job: Job[Any]) -> None:
    recorded: list[Act | None] = []

    def take(_step: Transition) -> Verdict:
        recorded.append(job.settled_in_transaction)
        return Verdict(True, State.COMPLETED)

    settle(job, step_of(job), take, joined=True)

    assert (recorded, job.settled_in_transaction) == ([Act.COMPLETE], Act.COMPLETE)


def test_what_was_refused_or_failed_is_in_no_transaction(job: Job[Any]) -> None:
    def refuse(_step: Transition) -> Verdict:
        return Verdict(False, State.QUEUED)

    def fail(_step: Transition) -> Verdict:
        raise ConnectionError

    with pytest.raises(LeaseLost):
        settle(job, step_of(job), refuse, joined=True)
    with pytest.raises(ConnectionError):
        settle(job, step_of(job), fail, joined=True)

    assert job.settled_in_transaction is None


def test_a_lease_that_somebody_has_for_a_moment_is_tried_again(job: Job[Any]) -> None:
    tries: list[Transition] = []

    def take(step: Transition) -> Verdict:
        tries.append(step)
        return Verdict(len(tries) > 2, State.PROCESSING)

    job.settled_in_transaction = Act.COMPLETE
    settle(job, extend(job.record, 60), take, joined=False)

    assert len(tries) == 3
    assert job.settled_in_transaction is Act.COMPLETE


def test_one_that_stays_locked_is_given_up(job: Job[Any]) -> None:
    tries: list[Transition] = []

    def take(step: Transition) -> Verdict:
        tries.append(step)
        return Verdict(False, State.PROCESSING)

    job.settled_in_transaction = Act.FAIL
    with pytest.raises(LeaseLost, match=r"fail\(\)"):
        settle(job, extend(job.record, 60), take, joined=False)

    assert len(tries) == 1 + len(RETRY_DELAYS)
    assert job.settled_in_transaction is Act.FAIL
