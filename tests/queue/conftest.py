from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.store_choice import STORES, choose_stores

import ackline
from ackline import Queue, Queues
from ackline.core import lifecycle
from ackline.core.job import Failure
from ackline.testing import ManualClock


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    choose_stores(metafunc, *STORES)


@pytest.fixture
def queues(store_url: str, clock: ManualClock) -> Iterator[Queues]:
    with ackline.open(store_url, clock=clock) as opened:
        yield opened


def bury_all(queue: Queue[Any, Any]) -> None:
    """Dead-letter all jobs that are queued, in one call."""
    failure = Failure(act="fail", attempt=1, type="Error")
    jobs = [job.record for job in queue.claim(10_000)]
    steps = [lifecycle.bury(job, failure, queue.policies.of(job)) for job in jobs]
    queue.store.apply(queue.key, steps)
