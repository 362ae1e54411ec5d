"""The configurations of `.ci/run`: missing programs are reported, failures fail the run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tools import compatibility
from tools.compatibility import Configuration


def rows_of(printed: str) -> dict[str, str]:
    return {line[:32].strip(): line[32:].strip() for line in printed.splitlines()}


def passed(name: str, **counts: int) -> Configuration:
    return Configuration(
        name, [], counts={"tests": 3, "failures": 0, "errors": 0, "skipped": 0} | counts
    )


def test_a_configuration_without_its_program_is_reported_and_does_not_fail_the_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configuration = Configuration("pooled", ["tests"], needs=lambda: None)

    compatibility.run(configuration)
    status = compatibility.report([passed("./check"), configuration])

    assert status == 0
    assert rows_of(capsys.readouterr().out)["pooled"].endswith(
        "NOT TESTED: its program is not installed"
    )


@pytest.mark.parametrize(
    "row",
    [
        passed("a failure", failures=1),
        passed("an error", errors=1),
        Configuration("no results", []),
        Configuration("no time", [], note="NOT RUN: out of time"),
        Configuration("hung", [], counts=passed("x").counts, note="ended after 720 s"),
    ],
    ids=lambda row: row.name,
)
def test_any_other_result_fails_the_run(row: Configuration) -> None:
    assert compatibility.report([passed("./check"), row]) == 1


def test_the_tests_use_the_program_of_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        f"import os\ndef test_it(): assert os.environ['IT'] == {sys.executable!r}"
    )
    configuration = Configuration("it", [str(tmp_path)], [], lambda: Path(sys.executable), "IT")

    compatibility.run(configuration)

    assert configuration.counts == {"tests": 1, "failures": 0, "errors": 0, "skipped": 0}
    assert configuration.note == f"with {sys.executable}"
