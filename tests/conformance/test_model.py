import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ackline.clock import Clock
from ackline.stores.base import Store
from ackline.stores.memory import MemoryStore
from ackline.stores.sqlite import SqliteStore
from ackline.testing.model import run_model

STORES: dict[str, Callable[[Clock, Path], Store]] = {
    "memory": lambda clock, place: MemoryStore(clock),
    "sqlite": lambda clock, place: SqliteStore(str(place / "jobs.db"), clock=clock),
}

HISTORIES = int(os.environ.get("ACKLINE_HISTORIES", "10000"))


@pytest.mark.parametrize("store", STORES)
def test_random_histories_do_not_differ_from_the_reference(store: str, tmp_path: Path) -> None:
    run_model(lambda clock: STORES[store](clock, tmp_path), histories=100, steps=50)


@pytest.mark.slow
@pytest.mark.parametrize("store", [name for name in STORES if name != "memory"])
def test_many_random_histories_do_not_differ(store: str, tmp_path: Path) -> None:
    run_model(
        lambda clock: STORES[store](clock, tmp_path),
        histories=HISTORIES,
        steps=60,
        repeatable=False,
    )
