"""Run random histories against one store."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from ackline.core.clock import Clock, ManualClock
from ackline.stores.contract import Store
from ackline.testing.model.state_machine import StoreStateMachine
from ackline.testing.model.store_pair import StorePair


def run_model(
    make_store: Callable[[Clock], Store],
    *,
    histories: int = 100,
    steps: int = 40,
    repeatable: bool = True,
) -> None:
    """Compare a store with the memory store over random histories; the first difference raises.

    Each history has a tenant of its own, so one opened store serves them all. A repeatable
    run plays the same histories each time.

    >>> run_model(lambda clock: MyStore("jobs", clock=clock), histories=1000)  # doctest: +SKIP
    """
    clock = ManualClock()
    store = make_store(clock)
    store.open()
    tenants = (f"history {number}" for number in itertools.count())
    try:
        run_state_machine_as_test(
            lambda: StoreStateMachine(StorePair(store, clock), next(tenants)),  # type: ignore[arg-type]
            settings=settings(
                max_examples=histories,
                stateful_step_count=steps,
                derandomize=repeatable,
                database=None,
                deadline=None,
                phases=(Phase.generate, Phase.shrink),
                suppress_health_check=list(HealthCheck),
                print_blob=False,
            ),
        )
    finally:
        store.close()
