"""Jobs of full groups are parked, a bounded number at a time."""

from typing import Any

import pytest
from tests.stores.postgres.actions import ids, put, take

from ackline.core.job import Draft, Options, QueueKey
from ackline.stores.postgres import PostgresStore, claim
from ackline.stores.postgres.io.pipeline import Pipeline, Reply

MANY = 400


@pytest.fixture
def parked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many jobs each transaction has parked."""
    numbers: list[int] = []
    send = Pipeline.send

    def counted(pipeline: Pipeline, name: str, *values: Any) -> Reply:
        if name == "park":
            numbers.append(len(values[0]["jobs"].values))
        return send(pipeline, name, *values)

    monkeypatch.setattr(Pipeline, "send", counted)
    return numbers


@pytest.fixture
def full_group(store: PostgresStore, queue: QueueKey) -> None:
    """Many jobs of a full group, and after them one without a group."""
    group = Options(group="g")
    drafts = [Draft(f"grouped {n}", "mail", b"{}", options=group) for n in range(MANY)]
    store.enqueue(queue, drafts)
    put(store, queue, "other")
    assert ids(take(store, queue, 1)) == ["grouped 0"]


@pytest.mark.usefixtures("full_group")
def test_jobs_after_a_full_group_are_reached_in_short_transactions(
    store: PostgresStore, queue: QueueKey, parked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim, "PARK_LIMIT", 50)

    assert ids(take(store, queue, 1)) == ["other"]

    assert sum(parked) == MANY - 1
    assert len(parked) > 2
    assert max(parked) < 100


@pytest.mark.usefixtures("full_group")
def test_control_fewer_jobs_are_parked_in_one_transaction(
    store: PostgresStore, queue: QueueKey, parked: list[int]
) -> None:
    assert ids(take(store, queue, 1)) == ["other"]

    assert parked == [MANY - 1]
