"""The order of claims, with scan positions, several processes and late commits."""

import math
import time
from collections.abc import Iterable

import pytest
from tests.harness.servers.postgres import PostgresServer
from tests.stores.postgres.actions import finish, ids, put, take
from tests.stores.postgres.conftest import OpenStore
from tests.stores.postgres.test_journal import enqueued_late

from ackline.core.job import NO_OPTIONS, Options, QueueKey
from ackline.stores.postgres import PostgresStore, scan_position
from ackline.stores.postgres.io.transaction import RetryTransaction, Transaction
from ackline.stores.postgres.scan_position import (
    FIRST_PROMOTED_LANE,
    UNORDERED_LANE,
    Scan,
    ScanPositions,
)


def test_a_higher_priority_of_another_process_is_claimed_first(
    open_store: OpenStore, queue: QueueKey
) -> None:
    one, other = open_store(), open_store()
    put(one, queue, *map(str, range(60)), assume_new=True)
    for _ in range(3):
        take(one, queue, 10)

    put(other, queue, "urgent", priority=9, assume_new=True)
    put(other, queue, "idle", priority=0, assume_new=True)

    assert ids(take(one, queue, 2)) == ["urgent", "30"]
    assert ids(take(one, queue))[-1] == "idle"


def test_a_job_committed_late_is_found_after_later_ones_were_claimed(
    open_store: OpenStore, server: PostgresServer, queue: QueueKey
) -> None:
    one, other = open_store(), open_store()
    put(one, queue, "first")
    with enqueued_late(server, other, queue, "late"):
        put(one, queue, "a", "b")
        assert ids(take(one, queue)) == ["first", "a", "b"]

    assert ids(take(one, queue)) == ["late"]


def test_a_job_committed_late_is_found_soon_by_busy_claims(
    open_store: OpenStore, server: PostgresServer, queue: QueueKey
) -> None:
    one, other = open_store(), open_store()
    put(one, queue, "first")
    with enqueued_late(server, other, queue, "late"):
        put(one, queue, *map(str, range(3000)))
        assert len(take(one, queue, 100)) == 100
    seen: list[str] = []
    until = time.monotonic() + 5.0
    while "late" not in seen and time.monotonic() < until:
        seen += ids(take(one, queue, 1))

    assert "late" in seen


@pytest.mark.usefixtures("without_full_scans", "without_steps_back")
def test_claims_are_as_fast_while_a_snapshot_is_kept_open(
    store: PostgresStore,
    queue: QueueKey,
    server: PostgresServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rows that cannot be removed are not read again by every claim."""
    scans: list[Scan] = []
    start_scan = ScanPositions.start_scan

    def recorded(positions: ScanPositions, kind_ids: Iterable[int]) -> Scan:
        scans.append(start_scan(positions, kind_ids))
        return scans[-1]

    monkeypatch.setattr(ScanPositions, "start_scan", recorded)
    put(store, queue, *map(str, range(6000)), assume_new=True)
    with server.connect(autocommit=False) as holder:
        holder.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        holder.execute("SELECT pg_current_xact_id()")
        for _ in range(25):
            finish(store, queue, *take(store, queue, 200))

    # Of priority 5, the lane into which all of them were put.
    last = scans[-1]
    assert last.jobs[last.lanes.index(5)] >= 4800


@pytest.fixture
def without_steps_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan_position, "STEP_BACK_INTERVAL", 3600.0)


@pytest.mark.usefixtures("without_steps_back")
class TestScanPositions:
    KIND_ID = 7

    def _scan(self, positions: ScanPositions, cost: float = 0.1) -> Scan:
        scan = positions.start_scan([self.KIND_ID])
        scan.cost = cost
        return scan

    def _first(self, positions: ScanPositions, lane: int) -> float:
        scan = positions.start_scan([self.KIND_ID])
        assert not scan.full
        return scan.ranks[scan.lanes.index(lane)]

    def test_the_first_scan_is_from_the_beginning(self) -> None:
        scan = ScanPositions().start_scan([self.KIND_ID])

        assert scan.full
        assert set(scan.ranks) == {-math.inf}

    def test_the_next_scan_starts_after_claimed_jobs(self) -> None:
        positions = ScanPositions()
        scan = self._scan(positions)
        positions.advance(scan, {(self.KIND_ID, 5): (3.0, 9)})

        assert self._first(positions, 5) == 3.0
        assert self._first(positions, 9) == -math.inf

    def test_a_lane_without_order_is_read_from_its_beginning(self) -> None:
        positions = ScanPositions()
        positions.advance(self._scan(positions), {(self.KIND_ID, UNORDERED_LANE): (3.0, 9)})

        assert self._first(positions, UNORDERED_LANE) == -math.inf

    def test_a_job_added_before_the_position_moves_it_back(self) -> None:
        positions = ScanPositions()
        positions_of_lanes = {
            (self.KIND_ID, FIRST_PROMOTED_LANE): (3.0, 9),
            (self.KIND_ID, 5): (7.0, 9),
        }
        positions.advance(self._scan(positions), positions_of_lanes)
        positions.step_back_to(self.KIND_ID, FIRST_PROMOTED_LANE, (4.0, 1))
        assert self._first(positions, FIRST_PROMOTED_LANE) == 3.0
        positions.step_back_to(self.KIND_ID, FIRST_PROMOTED_LANE, (2.0, 10))

        assert self._first(positions, FIRST_PROMOTED_LANE) == 2.0
        assert self._first(positions, 5) == 7.0

    def test_a_scan_that_started_before_a_step_back_advances_nothing(self) -> None:
        positions = ScanPositions()
        positions.advance(self._scan(positions), {(self.KIND_ID, 5): (3.0, 9)})
        scan = self._scan(positions)
        positions.step_back_to(self.KIND_ID, 5, (2.0, 10))
        positions.advance(scan, {(self.KIND_ID, 5): (5.0, 11)})

        assert self._first(positions, 5) == 2.0

    def test_a_scan_from_before_a_reset_advances_nothing(self) -> None:
        positions = ScanPositions()
        positions.advance(self._scan(positions), {(self.KIND_ID, 5): (2.0, 9)})
        scan = self._scan(positions)
        positions.reset()
        positions.advance(scan, {(self.KIND_ID, 5): (3.0, 9)})

        assert self._first(positions, 5) == -math.inf

    def test_costly_full_scans_are_rare(self) -> None:
        positions = ScanPositions()
        scan = self._scan(positions)
        positions.advance(scan, {(self.KIND_ID, 5): (3.0, 9)})

        assert not positions.start_scan([self.KIND_ID]).full
        assert not positions.rescan([self.KIND_ID]).full

    def test_a_cheap_full_scan_follows_a_scan_that_found_nothing(self) -> None:
        positions = ScanPositions()
        scan = self._scan(positions, cost=0.001)
        positions.advance(scan, {})

        assert positions.rescan([self.KIND_ID]).full


@pytest.mark.parametrize("options", [NO_OPTIONS, Options(lease=9.0)], ids=["at once", "in steps"])
@pytest.mark.usefixtures("without_full_scans", "without_steps_back")
def test_a_retried_claim_skips_no_jobs(
    store: PostgresStore, queue: QueueKey, monkeypatch: pytest.MonkeyPatch, options: Options
) -> None:
    for id in ("zeroth", "first", "second", "third"):  # each with a rank of its own
        put(store, queue, id, options=options)
    assert ids(take(store, queue, 1)) == ["zeroth"]
    flush, turns = Transaction.flush, []

    def conflict_once(tx: Transaction) -> None:
        turns.append(tx)
        if len(turns) == 1:
            raise RetryTransaction
        flush(tx)

    monkeypatch.setattr(Transaction, "flush", conflict_once)

    assert ids(take(store, queue, 2)) == ["first", "second"]
    assert len(turns) == 2
