"""A run that finds no news: what it drops is old by the store's clock. Spark is not needed."""

from __future__ import annotations

import itertools
import time

import msgspec
import pytest
from tests.spark.lake.test_compaction import NO_SPARK, fill, snapshot

from ackline.core.clock import ManualClock
from ackline.core.errors import ConfigError
from ackline.queues import Queues
from ackline.queues import open as open_queues
from ackline.spark.errors import LakeClaimed
from ackline.spark.lake import claim, running
from ackline.spark.lake.batch_log import Batch
from ackline.spark.lake.delta import DeltaTables
from ackline.spark.lake.lake import Lake
from ackline.spark.lake.layout import EVENTS, JOBS, batch_folder
from ackline.spark.lake.micro_batch import pass_nothing
from ackline.spark.lake.running import Asked, Run
from ackline.stores.registry import store_from_url

DAY = 86_400.0
YEAR = 365 * DAY
KEEP = 90 * DAY


class RefusedTables(DeltaTables):
    """Those of another lake."""

    def open(self):
        raise ConfigError("the tables of another lake")


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
            lake.log.add(Batch(number=number, events=6, ended=6, days=[], last_at=clock.now()))
            for name in (EVENTS, JOBS):
                fill(lake, *batch_folder(name, number), value="old")
        lake.change(published=2)
        lake.folder.write_json({}, "checkpoint", "offsets", "0")
        options = Asked(url=sqlite_url, tenant="default", lake=lake.folder.path, keep=KEEP)

        def run(passing=pass_nothing, **more):
            changed = msgspec.structs.replace(options, **more)
            return WithoutNews(NO_SPARK, queues, changed, passing).to_now()

        yield run


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
    monkeypatch.setattr(claim, "SILENCE", 0.0)
    clock.advance(KEEP + 1)
    lake, changes, found = Lake(str(tmp_path / "lake")), itertools.count(), {}

    def sleep(point):
        if point == "changing" and next(changes) == nth:
            run()
            lake.log.forget(0)
            lake.log.add(msgspec.structs.replace(lake.log.batches[0], level=1, first=0))
            found.update(snapshot(lake.folder.path))

    with pytest.raises(LakeClaimed):
        run(sleep)

    assert {name: found[name] for name in found if not name.endswith(".new")} == snapshot(
        lake.folder.path
    )


def test_what_was_logged_and_not_committed_is_told_of_by_the_run_that_does_it_again(run, tmp_path):
    folder = Lake(str(tmp_path / "lake")).folder
    for number in range(2):
        folder.write_json({}, "checkpoint", "commits", str(number))
    folder.write_json({}, "checkpoint", "commits", ".2.crc")

    assert (run().batches, run().events) == (1, 6)
    folder.write_json({}, "checkpoint", "commits", "2")
    assert run().batches == 0


def test_another_tenant_is_refused_though_the_store_has_moved(run, sqlite_url, tmp_path):
    lake = Lake(str(tmp_path / "lake"))
    refused = r"tenant 'default', and this is .*, tenant 'tb'"

    with open_queues(sqlite_url, tenant="tb") as queues, pytest.raises(ConfigError, match=refused):
        lake.open(queues, moved=True)

    assert lake.require().tenant == "default"
    run(moved=True)


def test_delta_tables_that_cannot_go_on_are_not_remembered(run, tmp_path, monkeypatch):
    monkeypatch.setattr(running, "DeltaTables", RefusedTables)

    with pytest.raises(ConfigError, match="another lake"):
        run(delta=str(tmp_path / "delta"))

    assert Lake(str(tmp_path / "lake")).require().delta is None


def test_delta_tables_are_searched_for_old_rows_only_when_a_batch_expires(
    run, clock, tmp_path, monkeypatch
):
    dropped = []
    monkeypatch.setattr(DeltaTables, "bring_up_to_date", lambda self: None)
    monkeypatch.setattr(DeltaTables, "drop", lambda self, before: dropped.append(before))
    run(delta=str(tmp_path / "delta"))
    assert dropped == []
    clock.advance(KEEP + 1)

    run()
    run()

    assert len(dropped) == 1
