"""How far a lake has come, as the store knows it after each run. Spark is not needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.spark.lake.test_compaction import NO_SPARK
from tests.spark.support.clocked_address import TestAddress
from tests.spark.support.query_options import read_options
from tests.spark.support.simulated_driver import POINTS, Checkpoint, Died, Driver

import ackline
from ackline.spark.errors import LakeDamaged
from ackline.spark.lake.checkpoint import committed_offset
from ackline.spark.lake.lake import Lake
from ackline.spark.lake.running import Asked, Run
from ackline.spark.streams.events.stream_reader import EventsStreamReader


class Query:
    """A query that is over."""

    recentProgress = ()  # noqa: N815

    def awaitTermination(self, _seconds):  # noqa: N802
        return True

    def stop(self):
        pass


class WithDriver(Run):
    """A run whose stream is driven as Spark does it, without Spark; it may be killed."""

    driver: Driver
    die_at = ""

    def _start(self, act):
        try:
            while self.driver.trigger(self.die_at):
                pass
        finally:
            write(self.driver.checkpoint, self.lake)
        return Query()


def write(checkpoint, lake):
    """The checkpoint in Spark's format, in the lake."""
    folder = Path(lake.folder.path, "checkpoint")
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for number, offset in checkpoint.offsets.items():
        (folder / "offsets" / str(number)).write_text(f'v1\n{{"conf":{{}}}}\n{offset}')
    for number in checkpoint.commits:
        (folder / "commits" / str(number)).write_text("v1\n{}")


class Lakes:
    """Lakes of one store, all under the same reader name."""

    def __init__(self, queues, url, folder):
        self.queues = queues
        self._url = url
        self._folder = folder
        self._checkpoints = {}

    def run(self, name="lake", die_at="", reader="lake"):
        checkpoint = self._checkpoints.setdefault(name, Checkpoint())
        message = {"store": self._url, "table": "events", "wait": "0"}
        message |= {} if reader is None else {"reader": reader}
        address: Any = TestAddress(lambda: ackline.open(self._url))
        run_options = Asked(url=self._url, tenant="default", lake=self.path(name), reader=reader)
        run = WithDriver(NO_SPARK, self.queues, run_options)
        reading = EventsStreamReader(read_options("readStream", message), address)
        run.driver = Driver(reading, checkpoint, now=True)
        run.die_at = die_at
        try:
            run.to_now()
        finally:
            reading.stop()

    def path(self, name):
        return str(self._folder / name)

    def rows(self, name="lake"):
        return self._checkpoints[name].ids


@pytest.fixture
def lakes(sqlite_url, tmp_path):
    with ackline.open(sqlite_url) as queues:
        yield Lakes(queues, sqlite_url, tmp_path)


def behind(queue):
    """The events that the store still keeps for the lake."""
    [reader] = queue.readers()
    return [event.id for event in queue.events(reader.cursor)]


def test_after_a_run_the_store_keeps_nothing_more_for_the_lake(lakes):
    queue = lakes.queues["email"]
    queue.enqueue(1, id="1")
    lakes.run()
    assert behind(queue) == []
    queue.enqueue(2, id="2")
    assert behind(queue) == ["2"]

    lakes.run()

    assert behind(queue) == []
    lakes.run()
    assert behind(queue) == []


@pytest.mark.parametrize("point", POINTS)
def test_what_a_killed_run_has_not_committed_is_kept_for_the_next(point, lakes):
    queue = lakes.queues["email"]
    queue.enqueue(1, id="1")
    lakes.run()
    queue.enqueue(2, id="2")

    with pytest.raises(Died):
        lakes.run(die_at=point)

    assert behind(queue) == ["2"]
    lakes.run()
    assert (lakes.rows(), behind(queue)) == (["1", "2"], [])


def test_an_offset_that_is_not_committed_does_not_count(lakes):
    queue = lakes.queues["email"]
    queue.enqueue(1, id="1")
    lakes.run()
    done = committed_offset(Lake(lakes.path("lake")))
    queue.enqueue(2, id="2")
    with pytest.raises(Died):
        lakes.run(die_at="sunk")

    assert done is not None
    assert committed_offset(Lake(lakes.path("lake"))) == done


def test_a_lake_without_a_name_saves_no_place(lakes):
    lakes.queues["email"].enqueue(1)

    lakes.run(reader=None)

    assert lakes.queues["email"].readers() == []


@pytest.mark.parametrize("contents", ["", "v1\n{}\n{nothing"])
def test_an_offset_that_cannot_be_read_is_named(lakes, contents):
    lakes.queues["email"].enqueue(1)
    lakes.run()
    file = Path(lakes.path("lake"), "checkpoint", "offsets", "0")
    file.write_text(contents)

    with pytest.raises(LakeDamaged, match=str(file)):
        committed_offset(Lake(lakes.path("lake")))


@pytest.mark.parametrize("news", [True, False])
def test_lakes_under_one_name_are_told_of_each_other(lakes, caplog, news):
    lakes.queues["email"].enqueue(1)
    lakes.run("one")
    assert not caplog.text
    message = "another stream or lake saved its cursor under the reader name 'lake'"

    for name in ("two", "one", "two"):
        caplog.clear()
        if news:
            lakes.queues["email"].enqueue(1)
        lakes.run(name)
        assert caplog.text.count(message) == 1
    caplog.clear()
    lakes.run("two")
    assert not caplog.text


def test_the_place_of_every_queue_moves_too(lakes):
    lakes.queues["email"].enqueue(1)
    lakes.run()
    lakes.queues["new"].enqueue(1, id="new")

    assert behind(lakes.queues["new"]) == ["new"]
    lakes.run()
    assert behind(lakes.queues["new"]) == []
