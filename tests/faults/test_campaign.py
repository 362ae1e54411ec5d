"""Under many faults, no job is lost, completed twice or left unfinished."""

import pytest

from tests.harness.faults.__main__ import main
from tests.harness.faults.campaign import Campaign, CampaignPlan


def run(url, tmp_path, **details):
    report = Campaign(CampaignPlan(store=url, **details), tmp_path / "histories").run()
    print(report)
    assert report.ok, str(report)
    return report


def test_sixteen_faults(url, tmp_path):
    report = run(url, tmp_path, faults=16, seed=2, seconds=200)

    assert sum(report.faults.values()) >= 16
    assert report.figures["jobs completed at the end"] > 100


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 6))
def test_two_hundred_faults(url, tmp_path, seed):
    report = run(url, tmp_path, faults=200, seed=seed, seconds=600)

    assert sum(report.faults.values()) >= 200


def test_the_command_prints_a_report(url, tmp_path, capsys):
    folder = str(tmp_path / "histories")

    status = main(["--store", url, "--faults", "2", "--seed", "5", "--histories", folder])

    assert "seed 5" in capsys.readouterr().out
    assert status == 0
