"""The first deadline is found without reading dead rows; no lease is missed for long."""

import math
from typing import Any

import pytest
from tests.stores.postgres.actions import finish, put, take
from tests.stores.postgres.conftest import OpenStore

from ackline.core.clock import ManualClock
from ackline.core.job import QueueKey
from ackline.stores.contract import ClaimRequest
from ackline.stores.postgres.io.pipeline import Pipeline, Reply
from ackline.stores.postgres.scan_position import LEASE_SCAN_INTERVAL, LEASE_SCAN_SHARE, LeaseScan

NOW = 1000.0


class TestLeaseScan:
    def test_the_first_scan_reads_all_leases(self) -> None:
        scan = LeaseScan()

        assert scan.is_due(NOW)
        assert scan.start == -math.inf

    def test_later_scans_start_at_the_first_deadline(self) -> None:
        scan = LeaseScan()

        scan.finished(NOW + 30.0, NOW, cost=0.0)

        assert scan.start == NOW + 30.0
        assert not scan.is_due(NOW + LEASE_SCAN_INTERVAL / 2)
        assert scan.is_due(NOW + LEASE_SCAN_INTERVAL)

    def test_costly_scans_are_rare(self) -> None:
        scan = LeaseScan()

        scan.finished(None, NOW, cost=0.1)

        assert not scan.is_due(NOW + 0.1 * LEASE_SCAN_SHARE - 0.01)
        assert scan.is_due(NOW + 0.1 * LEASE_SCAN_SHARE)

    def test_a_shorter_lease_of_the_same_process_is_not_skipped(self) -> None:
        scan = LeaseScan()
        scan.finished(NOW + 30.0, NOW, cost=0.0)

        scan.include(NOW + 5.0)

        assert scan.start == NOW + 5.0

    def test_all_leases_are_scanned_after_the_clock_was_set_back(self) -> None:
        scan = LeaseScan()

        scan.finished(NOW + 30.0, NOW, cost=0.0)

        assert scan.is_due(NOW - 1.0)


def test_a_shorter_lease_of_another_process_is_reported_when_it_lapses(
    open_store: OpenStore, queue: QueueKey
) -> None:
    clock = ManualClock()
    here, there = open_store(clock=clock), open_store(clock=clock)
    put(here, queue, "a", "b")
    take(here, queue, 1)
    short = ClaimRequest(worker="other", limit=1, lease=2.0)
    there.claim(queue, short)

    clock.advance(2.0)

    assert [job.id for job in here.claim(queue, short).lapsed] == ["b"]


def test_between_full_scans_a_claim_starts_at_the_first_deadline(
    open_store: OpenStore, queue: QueueKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts: list[float] = []
    send = Pipeline.send

    def recorded(pipeline: Pipeline, name: str, *values: Any) -> Reply:
        if name == "next_times":
            starts.append(values[0]["start"])
        return send(pipeline, name, *values)

    monkeypatch.setattr(Pipeline, "send", recorded)
    clock = ManualClock()
    store = open_store(clock=clock)
    put(store, queue, "a", "b")
    [first] = take(store, queue, 1)
    began = clock.now()
    clock.advance(LEASE_SCAN_INTERVAL)
    take(store, queue, 1)
    finish(store, queue, first)

    claimed = store.claim(queue, ClaimRequest(worker="w", limit=1, lease=30.0))

    assert starts[-1] == began + 30.0
    assert claimed.next_at == began + LEASE_SCAN_INTERVAL + 30.0
