"""How soon a job runs again, for each recovery path."""

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

SLOW = ("heartbeat", f"sweep_every={SLOW_SWEEP:g}")
QUICK = [path for path in RECOVERY_PATHS if not any(word in path.name for word in SLOW)]
STORE_SPECIFIC = ("monitor", "transaction", "claim-time")
"""Paths that depend on the store; by default, the other stores run only these."""


def cases(paths: list[RecoveryPath], stores: tuple[str, ...] = ALL_STORES):
    return [
        pytest.param(store, path, id=f"{store}: {path.name}")
        for path in paths
        for store in path.stores
        if store in stores
    ]


def quick_cases():
    some = [path for path in QUICK if any(word in path.name for word in STORE_SPECIFIC)]
    return [*cases(QUICK, ("sqlite",)), *cases(some, ("redis", "postgresql"))]


@pytest.mark.parametrize(("store", "path"), quick_cases())
def test_recovery_is_within_its_bound(store: str, path: RecoveryPath):
    [measured] = measure_store(store, [path], samples=2)
    print(table([measured]))

    assert len(measured.seconds) == 2
    assert max(measured.seconds) < path.bound


@pytest.mark.slow
@pytest.mark.parametrize(("store", "path"), cases(list(RECOVERY_PATHS)))
def test_many_samples_within_the_bound(store: str, path: RecoveryPath):
    [measured] = measure_store(store, [path], samples=8)
    print(table([measured]))

    assert len(measured.seconds) == 8
    assert max(measured.seconds) < path.bound


def test_the_table_has_a_column_for_each_store():
    path, other = (
        RECOVERY_PATHS[0],
        next(path for path in RECOVERY_PATHS if path.stores != ALL_STORES),
    )
    shown = table(
        [
            RecoveryTimes(path, "sqlite", (0.001, 0.002, 0.004)),
            RecoveryTimes(path, "postgresql", (0.5,)),
            RecoveryTimes(other, "postgresql", (1.0,)),
        ]
    )

    assert shown.splitlines() == [
        "| recovery path | detects | sqlite | postgresql |",
        "| --- | --- | --- | --- |",
        f"| {path.name} | {path.detection} | 0.002 s, 0.004 s | 0.500 s, 0.500 s |",
        f"| {other.name} | {other.detection} |  | 1.000 s, 1.000 s |",
    ]
