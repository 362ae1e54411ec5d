"""Two instances of the service on one store: jobs sent by one can be settled on the other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.service.conftest import Api, client_for

from ackline.core.job import QueueKey, State
from ackline.service import Settings
from ackline.service.runtime import Runtime

DEFAULT = QueueKey("default", "default")
AT_ONCE = {"backoffSchedule": [0, 0, 0, 0, 0]}


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Api, Api]]:
    """Without maintenance, so that only the tests change anything."""
    settings = Settings(store=f"sqlite:///{tmp_path}/jobs.db", maintenance=False)
    first, second = (Runtime.from_settings(settings) for _ in range(2))
    with client_for(first) as here, client_for(second) as there:
        yield Api(here, settings.base), Api(there, settings.base)


def take(api: Api) -> dict[str, str]:
    message = api.get("/queue/poll", wait=5)["message"]
    return {"id": message["id"], "receipt": message["receipt"]}


def state(api: Api, id: str) -> State:
    return State(api.get(f"/v1/queues/default/jobs/{id}", timeline=False)["state"])


def test_the_last_attempt_is_the_last_on_either_instance(pair):
    one, other = pair
    id = one.enqueue(1, maxAttempts=2, **AT_ONCE)
    take(one)
    other.post("/queue/nack", {"id": id})
    second = take(other)

    one.post("/queue/nack", second)

    assert state(one, id) is State.FAILED


def test_the_same_for_outcomes_in_a_batch(pair):
    one, other = pair
    id = one.enqueue(1, maxAttempts=2, **AT_ONCE)
    first = take(one)
    other.post("/queue/nack", first)
    token = take(other)["receipt"]

    outcome = {"id": id, "token": token, "outcome": "fail"}
    [settled] = one.post("/v1/queues/default/settle", {"outcomes": [outcome]})["results"]

    assert settled["state"] == "failed"


def test_an_id_settles_a_job_sent_by_the_other_instance(pair):
    one, other = pair
    id = one.enqueue(1, **AT_ONCE)
    take(one)
    other.post("/queue/nack", {"id": id})
    take(other)

    one.post("/queue/touch", {"id": id})
    one.post("/queue/ack", {"id": id})

    assert state(other, id) is State.COMPLETED


def test_a_repeated_nack_to_the_other_instance_answers_the_same(pair):
    """Even if the job is in its last attempt by now."""
    one, other = pair
    one.enqueue(1, maxAttempts=2, **AT_ONCE)
    first = take(one)
    one.post("/queue/nack", first)
    take(one)

    assert other.post("/queue/nack", first) == {"ok": True}
