"""Relays are killed and stopped while they work; every job runs once."""

from __future__ import annotations

from pathlib import Path

import pytest

from ackline.testing.faults.relay import NAIVE
from ackline.testing.faults.relaying import Relayed, Relaying, RelayPlan
from tests.relay.conftest import url_of

SOURCES = ["sqlite", "postgres"]


def relay(
    source: str, request: pytest.FixtureRequest, place: Path, faults: int, **more: str | int
) -> Relayed:
    plan = RelayPlan(
        source=url_of(source, request, place),
        target=url_of("redis", request, place),
        faults=faults,
        **more,  # type: ignore[arg-type]
    )
    relayed = Relaying(plan, place / "histories").run()
    print(relayed)
    return relayed


@pytest.mark.parametrize("source", SOURCES)
def test_every_job_runs_once_and_the_target_is_sound(
    source: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    relayed = relay(source, request, tmp_path, faults=4, keep=3600)

    assert relayed.enqueued > 60
    assert sum(relayed.faults.values()) == 4
    assert relayed.report is not None
    assert relayed.report.ok, relayed.report
    assert relayed.ok, relayed


def test_control_without_the_ledger_jobs_run_twice(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    relayed = relay("postgres", request, tmp_path, faults=8, variant=NAIVE)

    assert relayed.twice
    assert not relayed.lost


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("source", SOURCES)
def test_many_faults(
    source: str, seed: int, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    relayed = relay(source, request, tmp_path, faults=50, seed=seed)

    assert relayed.ok, relayed
