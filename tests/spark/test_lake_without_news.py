"""A run that finds no news: what it drops is old by the store's clock. Spark is not needed."""

from __future__ import annotations

import itertools
import time

import msgspec
import pytest

from ackline.clock import ManualClock
from ackline.queues import Queues
from ackline.spark.errors import LakeClaimed
from ackline.spark.lake import claim
from ackline.spark.lake.lake import EVENTS, JOBS, Batch, Lake
from ackline.spark.lake.micro_batch import pass_nothing
from ackline.spark.lake.running import Asked, Run
from ackline.stores.registry import store_from_url
from tests.spark.test_compaction import NO_SPARK, fill, snapshot

DAY = 86_400.0
YEAR = 365 * DAY
KEEP = 90 * DAY


class WithoutNews(Run):
    """A run that finds nothing to take in."""

    def _take_in(self, claim):
        return []


@pytest.fixture
def clock():
    """The store's: by it, this machine is a year ahead."""
    return ManualClock(time.time() - YEAR)


@pytest.fixture
def run(sqlite_url, clock, tmp_path):
    """Runs a lake of three batches of today, by the store's clock."""
    lake = Lake(str(tmp_path / "lake"))
    store = store_from_url(sqlite_url, clock)
    store.open()
    with Queues(store) as queues:
        lake.open(queues)
        for number in range(3):
            lake.log(Batch(number=number, events=6, ended=6, days=[], last_at=clock.now()))
            for name in (EVENTS, JOBS):
                fill(lake, *lake.parts(name, number), value="old")
        lake.change(published=2)
        lake.folder.write_json({}, "checkpoint", "offsets", "0")
        asked = Asked(url=sqlite_url, tenant="default", lake=lake.folder.path, keep=KEEP)

        yield lambda passing=pass_nothing: WithoutNews(NO_SPARK, queues, asked, passing).to_now()


def kept(tmp_path):
    return Lake(str(tmp_path / "lake")).folder.batches(*EVENTS)


def test_a_machine_whose_clock_is_ahead_drops_nothing(run, tmp_path):
    assert run().dropped == 0
    assert kept(tmp_path) == [0, 1, 2]


def test_what_is_old_by_the_stores_clock_is_dropped(run, clock, tmp_path):
    """The control. The last batch stays: it may be replayed."""
    clock.advance(KEEP + 1)

    assert run().dropped == 2
    assert kept(tmp_path) == [2]


def test_what_a_killed_run_left_half_written_is_swept_by_the_next(run, tmp_path):
    folder = Lake(str(tmp_path / "lake")).folder
    for parts in ((".lake.json.1.new",), ("log", ".000000000003.json.1.new")):
        folder.write_json({}, *parts)

    run()

    assert [name for name in (*folder.names(), *folder.names("log")) if name[0] == "."] == []


@pytest.mark.parametrize("nth", range(6))
def test_one_that_wakes_up_while_it_drops_changes_nothing(run, clock, tmp_path, monkeypatch, nth):
    """Another has dropped the same meanwhile, and has put batches together."""
    monkeypatch.setattr(claim, "_is_gone", lambda holder: True)
    clock.advance(KEEP + 1)
    lake, changes, found = Lake(str(tmp_path / "lake")), itertools.count(), {}

    def sleep(point):
        if point == "changing" and next(changes) == nth:
            run()
            lake.forget(0)
            lake.log(msgspec.structs.replace(lake.batches[0], level=1, first=0))
            found.update(snapshot(lake.folder.path))

    with pytest.raises(LakeClaimed):
        run(sleep)

    assert {name: found[name] for name in found if not name.endswith(".new")} == snapshot(
        lake.folder.path
    )
