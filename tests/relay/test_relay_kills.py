"""Relays are killed and stopped while they work; every job runs once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.faults.programs.relay import NO_LEDGER
from tests.harness.faults.relay_campaign import RelayCampaign, RelayPlan, RelayReport

EmptyStore = Callable[[str], str]

SOURCES = ["sqlite", "postgres"]


def relay(
    source: str, empty_store: EmptyStore, place: Path, faults: int, **more: str | int
) -> RelayReport:
    plan = RelayPlan(
        source=empty_store(source),
        target=empty_store("redis"),
        faults=faults,
        **more,  # type: ignore[arg-type]
    )
    relayed = RelayCampaign(plan, place / "histories").run()
    print(relayed)
    return relayed


@pytest.mark.parametrize("source", ["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def test_every_job_runs_once_and_the_target_passes_the_checker(
    source: str, empty_store: EmptyStore, tmp_path: Path
) -> None:
    relayed = relay(source, empty_store, tmp_path, faults=4, keep=3600)

    assert relayed.enqueued > 60
    assert sum(relayed.faults.values()) == 4
    assert relayed.report is not None
    assert relayed.report.ok, relayed.report
    assert relayed.ok, relayed


@pytest.mark.slow
def test_control_without_the_ledger_jobs_run_twice(empty_store: EmptyStore, tmp_path: Path) -> None:
    relayed = relay("postgres", empty_store, tmp_path, faults=8, variant=NO_LEDGER)

    assert relayed.twice
    assert not relayed.lost


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("source", SOURCES)
def test_many_faults(source: str, seed: int, empty_store: EmptyStore, tmp_path: Path) -> None:
    relayed = relay(source, empty_store, tmp_path, faults=50, seed=seed)

    assert relayed.ok, relayed
