"""How soon a job runs again, for each way in which that happens."""

import pytest

from tests.harness.faults.recovery_times import (
    ALL_STORES,
    RECOVERY_PATHS,
    SLOW_SWEEP,
    RecoveryPath,
    RecoveryTimes,
    measure_store,
    table,
)

LONG_WAITS = ("heartbeat", f"sweep_every={SLOW_SWEEP:g}")
QUICK = [way for way in RECOVERY_PATHS if not any(word in way.name for word in LONG_WAITS)]
TOLD_APART = ("monitor", "transaction", "claim-time")
"""What depends on the store: elsewhere only these are tried each time."""


def cases(ways: list[RecoveryPath], stores: tuple[str, ...] = ALL_STORES):
    return [
        pytest.param(store, way, id=f"{store}: {way.name}")
        for way in ways
        for store in way.stores
        if store in stores
    ]


def quick_cases():
    some = [way for way in QUICK if any(word in way.name for word in TOLD_APART)]
    return [*cases(QUICK, ("sqlite",)), *cases(some, ("redis", "postgresql"))]


@pytest.mark.parametrize(("store", "way"), quick_cases())
def test_recovery_is_within_its_bound(store: str, way: RecoveryPath):
    [measured] = measure_store(store, [way], samples=2)
    print(table([measured]))

    assert len(measured.seconds) == 2
    assert max(measured.seconds) < way.bound


@pytest.mark.slow
@pytest.mark.parametrize(("store", "way"), cases(list(RECOVERY_PATHS)))
def test_many_samples_within_the_bound(store: str, way: RecoveryPath):
    [measured] = measure_store(store, [way], samples=8)
    print(table([measured]))

    assert len(measured.seconds) == 8
    assert max(measured.seconds) < way.bound


def test_the_table_has_a_column_for_each_store():
    way, other = RECOVERY_PATHS[0], next(way for way in RECOVERY_PATHS if way.stores != ALL_STORES)
    shown = table(
        [
            RecoveryTimes(way, "sqlite", (0.001, 0.002, 0.004)),
            RecoveryTimes(way, "postgresql", (0.5,)),
            RecoveryTimes(other, "postgresql", (1.0,)),
        ]
    )

    assert shown.splitlines() == [
        "| way | detects | sqlite | postgresql |",
        "| --- | --- | --- | --- |",
        f"| {way.name} | {way.detection} | 0.002 s, 0.004 s | 0.500 s, 0.500 s |",
        f"| {other.name} | {other.detection} |  | 1.000 s, 1.000 s |",
    ]
