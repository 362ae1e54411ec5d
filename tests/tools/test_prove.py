"""`./prove` continues where it stopped, within its budget, and separates failures from stalls."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.harness.faults.checks.report import Report
from tools import compatibility, prove
from tools.prove_plugin import outcome_of

ROOT = Path(__file__).parents[2]
COMMIT, CAMPAIGN = "abc1234", "histories"

HEAD = """
import os, signal, subprocess, time
from pathlib import Path
import pytest

pytestmark = pytest.mark.slow
here = Path(__file__).parent
"""


class Campaign:
    """A folder with tests, run as a campaign."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = folder / "state.jsonl"

    def write(self, text: str) -> None:
        (self.folder / "test_campaign.py").write_text(HEAD + text)

    def run(self, seconds: float = 120.0) -> None:
        prove.run(CAMPAIGN, [str(self.folder)], COMMIT, seconds, self.state)

    @property
    def records(self) -> list[prove.Record]:
        return prove.read_records(self.state, COMMIT)

    @property
    def verdict(self) -> str:
        return prove.verdict_of(CAMPAIGN, self.records)

    @property
    def outcomes(self) -> dict[str, str]:
        results = prove.last_results(CAMPAIGN, self.records)
        return {test.rpartition("::")[2]: record["outcome"] for test, record in results.items()}


@pytest.fixture
def campaign(tmp_path: Path) -> Campaign:
    return Campaign(tmp_path)


def test_passed_tests_are_not_run_again(campaign: Campaign) -> None:
    campaign.write("""
def test_first():
    with open(here / "ran", "a") as file:
        file.write("first ")

def test_second():
    with open(here / "ran", "a") as file:
        file.write("second ")
    assert (here / "mended").exists()

def test_third():
    (here / "mended").touch()
""")

    campaign.run()
    assert campaign.outcomes.pop("test_second") != "passed"
    assert campaign.verdict != "passed"
    campaign.run()

    assert campaign.verdict == "passed"
    assert (campaign.folder / "ran").read_text() == "first second second "


@pytest.mark.usefixtures("started_in_the_background")
def test_an_exhausted_budget_keeps_the_passed_tests(campaign: Campaign) -> None:
    campaign.write("""
def test_quick():
    pass

@pytest.fixture
def cleanup():
    yield
    (here / "cleaned up").touch()

def test_endless(cleanup):
    time.sleep(600)
""")

    seconds = 2.0  # doubled until the first test has run, however slow the machine
    while campaign.outcomes != {"test_quick": "passed"} or not was_interrupted(campaign):
        campaign.run(seconds := seconds * 2)

    assert campaign.verdict == "unfinished"


@pytest.fixture
def started_in_the_background() -> Iterator[None]:
    """Background processes of shell scripts ignore SIGINT, and so do their children."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, before)


def was_interrupted(campaign: Campaign) -> bool:
    return (campaign.folder / "cleaned up").exists()


def test_a_failure_during_a_stall_is_inconclusive(campaign: Campaign) -> None:
    campaign.write("""
def test_stopped():
    subprocess.Popen(["sh", "-c", f"sleep 1.5; kill -CONT {os.getpid()}"])
    os.kill(os.getpid(), signal.SIGSTOP)
    assert False
""")

    campaign.run()

    assert campaign.outcomes == {"test_stopped": "inconclusive"}
    assert campaign.verdict == "inconclusive"
    [record] = prove.last_results(CAMPAIGN, campaign.records).values()
    assert record["stall"] > prove.LEASE_SECONDS


def test_the_error_of_a_failed_test_is_recorded_and_printed(
    campaign: Campaign, capsys: pytest.CaptureFixture[str]
) -> None:
    campaign.write("""
def test_broken():
    lost = 3
    assert lost == 0
""")

    campaign.run()
    prove.print_errors(campaign.records)

    assert "assert 3 == 0" in capsys.readouterr().out


def test_control_a_failure_without_a_stall_is_a_failure() -> None:
    failed = pytest.TestReport("t", ("t", 0, "t"), {}, "failed", None, "call")

    assert outcome_of([failed], stall=prove.LEASE_SECONDS / 2) == "failed"
    assert outcome_of([failed], stall=prove.LEASE_SECONDS * 2) == "inconclusive"


def result(test: str, outcome: str, **more: Any) -> str:
    defaults = {"seconds": 60.0, "stall": 0.1, "seeds": [], "figures": {}, **more}
    return json.dumps(
        {"commit": COMMIT, "campaign": CAMPAIGN, "test": test, "outcome": outcome} | defaults
    )


def planned(*tests: str) -> str:
    return json.dumps({"commit": COMMIT, "campaign": CAMPAIGN, "planned": tests})


@pytest.mark.parametrize(
    ("outcomes", "verdict"),
    [
        ({}, "not run"),
        ({"a": "passed"}, "unfinished"),
        ({"a": "passed", "b": "passed"}, "passed"),
        ({"a": "failed"}, "failed"),
        ({"a": "failed", "b": "inconclusive"}, "failed"),
        ({"a": "inconclusive", "b": "passed"}, "inconclusive"),
        ({"a": "skipped", "b": "passed"}, "skipped"),
    ],
)
def test_verdicts(campaign: Campaign, outcomes: dict[str, str], verdict: str) -> None:
    lines = [planned("a", "b"), *(result(test, outcome) for test, outcome in outcomes.items())]
    campaign.state.write_text("\n".join(lines))

    assert campaign.verdict == verdict


def test_the_last_result_of_this_commit_counts(campaign: Campaign) -> None:
    lines = [
        planned("a", "gone"),
        result("a", "failed"),
        planned("a"),
        result("a", "passed"),
        result("a", "failed").replace(COMMIT, "0000000"),
        '{"commit": "' + COMMIT,  # a kill cut it off
    ]
    campaign.state.write_text("\n".join(lines))

    assert campaign.verdict == "passed"


def test_the_table_has_seeds_figures_and_the_longest_stall(campaign: Campaign) -> None:
    report = Report(violations=(), figures={"deliveries": 1200}, faults={"kill": 3}, seed=7)
    campaign.write(f"""
def test_one():
    print({str(report)!r})

def test_two():
    print({str(report).replace("seed 7", "seed 8")!r})
""")

    campaign.run()

    [row] = [line for line in prove.table_of(campaign.records).splitlines() if CAMPAIGN in line]
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[:3] == [CAMPAIGN, "passed", "2 of 2 passed"]
    assert cells[4].endswith(" s")
    assert cells[5:] == ["7 8", "6 faults, 2,400 deliveries"]


def test_a_full_pass_is_written_into_the_page(tmp_path: Path) -> None:
    path = tmp_path / "proof.md"
    path.write_text((ROOT / "docs" / "proof.md").read_text())
    before = path.read_text().partition(prove.LAST_PASS)[0]

    for commit in ("abc1234", "def5678"):
        prove.write_page("| a table |", commit, path)

    text = path.read_text()
    assert text.startswith(before)
    assert "on commit def5678." in text
    assert "abc1234" not in text
    assert text.endswith("| a table |\n")


def test_every_slow_test_is_run_by_a_campaign_or_as_a_configuration() -> None:
    slow = [
        path.relative_to(ROOT)
        for path in (ROOT / "tests").rglob("test_*.py")
        if "mark.slow" in path.read_text() and path != Path(__file__)
    ]
    run = [Path(test.partition("::")[0]) for tests in prove.CAMPAIGNS.values() for test in tests]
    run += [
        Path(test.partition("::")[0])
        for configuration in compatibility.CONFIGURATIONS
        for test in configuration.tests
    ]

    assert slow
    assert [path for path in slow if not {path, *path.parents} & {*run}] == []
