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
from ackline.service.store_access.sizes import MOST
from ackline.spark.claims.stream import ClaimsStreamReader
from ackline.spark.events.stream import EventsStreamReader
from ackline.spark.events.table import EventsReader
from ackline.spark.jobs import JobsReader
from ackline.spark.options import ReadClaims, ReadEvents, ReadJobs
from tests.harness.servers.service import ServiceThread
from tests.spark.addresses import TestAddress
from tests.spark.driver import Checkpoint, Died, Driver

COUNT = MOST + 500
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
    options = ReadJobs(store="", table="jobs", page_size=COUNT)

    assert sorted(ids_in(JobsReader(options, address))) == sorted(IDS)


def test_events_are_a_table(address):
    options = ReadEvents(store="", table="events", acts="enqueue")

    assert sorted(ids_in(EventsReader(options, address))) == sorted(IDS)


def test_events_are_a_stream(address):
    options = ReadEvents(store="", table="events", acts="enqueue", wait=0.0)
    checkpoint = Checkpoint()

    Driver(EventsStreamReader(options, address), checkpoint).run()

    assert sorted(checkpoint.ids) == sorted(IDS)


def test_claims_are_a_stream_that_starts_again(address):
    options = ReadClaims(store="", table="jobs", queue="email", stream_id="lake", wait=0.0)
    checkpoint = Checkpoint()
    first = Driver(ClaimsStreamReader(options, address), checkpoint)
    with pytest.raises(Died):
        first.trigger(die_at="read")
    first.die()

    second = Driver(ClaimsStreamReader(options, address), checkpoint)
    second.run()
    second.die()

    assert sorted(checkpoint.ids) == sorted(IDS)
