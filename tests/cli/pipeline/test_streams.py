"""`ackline pipeline streams`: what Spark's streams of jobs have left in the store."""

from __future__ import annotations

import pytest

from ackline.core.job import State
from ackline.queues import Queues
from ackline.spark.errors import StreamFenced
from ackline.spark.options import ClaimsOptions
from ackline.spark.streams.claims.coordinator import ClaimCoordinator


@pytest.fixture
def claims(queues):
    """A stream that has claimed one of two jobs."""
    queues["email"].enqueue_many([1, 2])
    options = ClaimsOptions(store="", table="jobs", queue="email", stream_id="lake", wait=0.0)
    claims = ClaimCoordinator(Queues(queues.store), options)
    claims.begin(lambda _state: None)
    claims.claim_next_batch(0, 1)
    yield claims
    claims.close()


def test_streams_are_listed(cli, claims):
    listed = {"queue": "email", "stream": "lake", "committed": 0, "drivers": 1}

    assert cli("pipeline", "streams", "--json").documents == [{"streams": [listed]}]
    assert "lake" in cli("pipeline", "streams", "email").out


def test_a_forgotten_stream_releases_its_jobs_and_stops(cli, claims, queues):
    assert cli("pipeline", "streams", "email", "--forget", "lake").code == 0

    assert queues["email"].counts()[State.QUEUED] == 2
    assert queues.store.read_keys(queues.tenant, ("ackline",), 10) == []
    with pytest.raises(StreamFenced, match="forgotten"):
        claims.claim_next_batch(1, 1)
    assert cli("pipeline", "streams").out.strip() == "No streams claim jobs."


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["email", "--forget", "pond"], "has no stream 'pond'"),
        (["--forget", "lake"], "name the queue"),
    ],
)
def test_forgetting_an_unknown_stream_fails(cli, claims, arguments, message):
    answer = cli("pipeline", "streams", *arguments)

    assert answer.code != 0
    assert message in answer.err
