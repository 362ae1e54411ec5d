"""Waiting for a store: as long as it can help, and no longer than was asked for."""

from __future__ import annotations

from typing import Any

import pytest

from ackline.core.errors import StoreClosed, StoreError, StoreFull, StoreReadOnly, StoreUnavailable
from ackline.spark.store import retry


class Troubled:
    """Fails so many times before it answers."""

    def __init__(self, error: Exception, times: int) -> None:
        self.error = error
        self.left = times

    def __call__(self) -> str:
        if self.left:
            self.left -= 1
            raise self.error
        return "done"


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that were made, in no time."""
    made: list[float] = []
    monkeypatch.setattr("ackline.spark.store.retry.time.sleep", made.append)
    return made


@pytest.mark.parametrize("kind", [StoreUnavailable, StoreReadOnly, StoreFull])
def test_trouble_that_passes_is_waited_for(kind: type[StoreError], pauses: list[float]) -> None:
    act = Troubled(kind("the server fails over"), 3)

    assert retry.retry_transient(act, 60.0) == "done"
    assert pauses == [0.1, 0.2, 0.4]


@pytest.mark.parametrize("error", [StoreClosed("closed"), ValueError("a mistake")])
def test_what_never_passes_is_raised_at_once(error: Any, pauses: list[float]) -> None:
    with pytest.raises(type(error)):
        retry.retry_transient(Troubled(error, 1), 60.0)

    assert pauses == []


def test_time_runs_out(pauses: list[float]) -> None:
    with pytest.raises(StoreUnavailable):
        retry.retry_transient(Troubled(StoreUnavailable("away"), 1), 0.0)

    assert pauses == []
