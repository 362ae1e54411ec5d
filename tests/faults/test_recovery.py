"""How soon a job runs again, for each way in which that happens."""

import pytest

from tests.harness.faults.recovery import (
    ALL_STORES,
    SLOW,
    WAYS,
    Measured,
    Way,
    measure_store,
    table,
)

LONG_WAITS = ("heartbeat", f"sweep_every={SLOW:g}")
QUICK = [way for way in WAYS if not any(word in way.name for word in LONG_WAITS)]
TOLD_APART = ("monitor", "transaction", "claim-time")
"""What depends on the store: elsewhere only these are tried each time."""


def cases(ways: list[Way], stores: tuple[str, ...] = ALL_STORES):
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
def test_within_its_bound(store: str, way: Way):
    [measured] = measure_store(store, [way], samples=2)
    print(table([measured]))

    assert len(measured.seconds) == 2
    assert max(measured.seconds) < way.bound


@pytest.mark.slow
@pytest.mark.parametrize(("store", "way"), cases(list(WAYS)))
def test_many_samples_within_the_bound(store: str, way: Way):
    [measured] = measure_store(store, [way], samples=8)
    print(table([measured]))

    assert len(measured.seconds) == 8
    assert max(measured.seconds) < way.bound


def test_the_table_has_a_column_for_each_store():
    way, other = WAYS[0], next(way for way in WAYS if way.stores != ALL_STORES)
    shown = table(
        [
            Measured(way, "sqlite", (0.001, 0.002, 0.004)),
            Measured(way, "postgresql", (0.5,)),
            Measured(other, "postgresql", (1.0,)),
        ]
    )

    assert shown.splitlines() == [
        "| way | detects | sqlite | postgresql |",
        "| --- | --- | --- | --- |",
        f"| {way.name} | {way.detects} | 0.002 s, 0.004 s | 0.500 s, 0.500 s |",
        f"| {other.name} | {other.detects} |  | 1.000 s, 1.000 s |",
    ]
