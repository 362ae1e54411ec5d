"""Tables and streams of a store that is reached over HTTP: a service is a store like any other.

There is more of everything than one answer of the service may have.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import ackline
from ackline import NewJob
from ackline.queues import Queues
from ackline.service import Settings
from ackline.service.runtime import Runtime
from ackline.service.store_api.arguments import MAX_RESULTS
from ackline.spark.options import ClaimsOptions, EventsOptions, JobsOptions
from ackline.spark.streams.claims.stream_reader import ClaimsStreamReader
from ackline.spark.streams.events.stream_reader import EventsStreamReader
from ackline.spark.tables.events import EventsTableReader
from ackline.spark.tables.jobs import JobsTableReader
from tests.harness.servers.service import ServiceThread
from tests.spark.support.clocked_address import TestAddress
from tests.spark.support.simulated_driver import Checkpoint, Died, Driver

COUNT = MAX_RESULTS + 500
IDS = [str(number) for number in range(COUNT)]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A service with so many jobs, which stay there when they are done."""
    settings = Settings(store="memory://", port=0, maintenance=False, drain=0.0, grace=1.0)
    with ServiceThread(Runtime.from_settings(settings)) as service:
        with ackline.open(service.url) as queues:
            queues["email"].enqueue_many(NewJob({}, id=id) for id in IDS)
        yield service.url


@pytest.fixture
def address(url: str) -> Iterator[TestAddress]:
    opened: list[Queues] = []

    def connect() -> Queues:
        opened.append(ackline.open(url))
        return opened[-1]

    yield TestAddress(connect)
    for queues in opened:
        queues.close()


def ids_in(reader: Any) -> list[str]:
    batches = (batch for part in reader.partitions() for batch in reader.read(part))
    return [id for batch in batches for id in batch.column("id").to_pylist()]


def test_jobs_are_a_table(address):
    options = JobsOptions(store="", table="jobs", page_size=COUNT)

    assert sorted(ids_in(JobsTableReader(options, address))) == sorted(IDS)


def test_events_are_a_table(address):
    options = EventsOptions(store="", table="events", acts="enqueue")

    assert sorted(ids_in(EventsTableReader(options, address))) == sorted(IDS)


def test_events_are_a_stream(address):
    options = EventsOptions(store="", table="events", acts="enqueue", wait=0.0)
    checkpoint = Checkpoint()

    Driver(EventsStreamReader(options, address), checkpoint).run()

    assert sorted(checkpoint.ids) == sorted(IDS)


def test_claims_are_a_stream_that_starts_again(address):
    options = ClaimsOptions(store="", table="jobs", queue="email", stream_id="lake", wait=0.0)
    checkpoint = Checkpoint()
    first = Driver(ClaimsStreamReader(options, address), checkpoint)
    with pytest.raises(Died):
        first.trigger(die_at="read")
    first.die()

    second = Driver(ClaimsStreamReader(options, address), checkpoint)
    second.run()
    second.die()

    assert sorted(checkpoint.ids) == sorted(IDS)
